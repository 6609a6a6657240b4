// Package clients uses the gateway with clients of other projects, which run on Node and are no parts of this module:
// OpenAI's, the AI SDK, AG-UI's and MCP's. The tests have the build tag clients; ".ci/run clients" installs what they need and runs them.
package clients
