// Package mcp holds package tool/mcp to servers that others wrote: those that the
// protocol's own project publishes for Node.
//
// The one idea: package.json pins them, .ci/setup installs them into node_modules
// here, and the tests that talk to them stand behind the build tag mcpservers, so that
// go test ./... needs nothing but Go. `.ci/run mcp` does both.
package mcp
