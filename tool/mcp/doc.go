// Package mcp offers the tools, resources and prompts of servers that speak the Model
// Context Protocol, using the protocol's official Go SDK.
//
// Servers can connect and disconnect without affecting anything else. A [Manager] has a
// goroutine for each [Server]. It connects, lists what the server offers, holds the
// connection until it is lost, and retries after a pause. Each server is a [tool.Source]:
// its tools leave the catalog when the connection is lost and return with it.
//
// A server is a program, which speaks over its stdin and stdout in its own process group,
// or a URL that speaks streamable HTTP. Secrets are references (env:NAME, file:PATH),
// resolved each time they are needed and never shown.
//
// A tool is named mcp_SERVER_TOOL. Its effects come from the server's hints; without
// hints, it is unsafe to repeat. Its requests have the kinds mcp.…, which
// [permission.Servers] judges. If a server wants credentials, calls fail with
// [tool.AuthRequired]; the next call uses the credentials from [Manager.ResolveAuth] or
// the current value of the reference. Meanwhile the tools stay on offer, so that there
// can be a next call.
//
// Servers may send requests too. Roots are answered; the host may answer sampling and
// elicitation, which are otherwise refused.
//
// Not supported: subscriptions to resources, completion of arguments, the servers' log
// messages, and the older HTTP transport with two endpoints.
//
// To test code that uses this package, run a server of the SDK in an httptest server, or
// in the test binary as a program, as the tests of this package do.
package mcp
