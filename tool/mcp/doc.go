// Package mcp makes the tools, resources and prompts of servers that speak the Model
// Context Protocol tools of ours, by the protocol's official Go SDK.
//
// The one idea: a server comes and goes, and nobody else minds. A [Manager] has one
// goroutine for each [Server], which connects, asks what is on offer, and holds the
// connection until it is lost; then it waits a while and begins again. What the
// server offers just now is a [tool.Source]: its tools leave the catalog with the
// connection and come back with it. A server that never answers costs its own tools
// and nothing else.
//
// A server is a program, spoken with over its stdin and stdout in a process group of
// its own that ends with the manager, or a URL that speaks streamable HTTP. Secrets
// are references (env:NAME, file:PATH), looked up anew whenever they are needed and
// never shown.
//
// A tool's name is mcp_SERVER_TOOL, its effects are those that the server hints at
// (none: running it twice may do harm), and its requests are of the kinds mcp.…, for
// [permission.Servers] to judge. A server that wants credentials makes its calls fail
// with [tool.AuthRequired]; [Manager.ResolveAuth] brings them, or the reference holds
// them by then, and the next call uses them. Until then its tools stay on offer, so
// that there is a next call.
//
// Servers may ask back. Roots are answered; sampling and elicitation are the host's
// to answer, and refused where it does not.
//
// Absent: resources that are subscribed to, completion of arguments, the servers' log
// messages, and the older transport of two HTTP endpoints.
//
// To test against it, run a server of the SDK behind httptest, or in the test binary
// itself as a program; the tests of this package do both.
package mcp
