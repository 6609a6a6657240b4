// Package clients uses the gateway, and "turnlog acp", with clients of other projects, which run on Node and are not part of this module: OpenAI's, the AI SDK, AG-UI's, MCP's and acpx. It also runs the
// examples of tools in Python and TypeScript. The tests have the build tag clients; ".ci/run clients" installs what they need and runs them.
package clients
