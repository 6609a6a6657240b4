// Package mcp tests package tool/mcp against the servers that the protocol's own project
// publishes for Node.
//
// package.json pins them, .ci/setup installs them into node_modules here, and the tests have the
// build tag mcpservers, so that go test ./... needs only Go. `.ci/run mcp` does both.
package mcp
