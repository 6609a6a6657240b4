// Package httptool turns HTTP endpoints into tools, whatever language they are written in.
//
// An endpoint is a tool like any other. A worker claims the call, holds its lease, and reports the result with its ticket; the
// service only gets a request. So a service needs no NATS client and no state.
//
// A service describes itself at its URL, in one of two forms:
//
//   - a manifest, a [tool.Description] in JSON. It is one tool with the name of the service, and a call is a POST of the
//     input to the same URL;
//   - an OpenAPI 3 document in JSON. Each operation is a tool, NAME_operationId. Its parameters are properties of the
//     input, and its JSON body is the property body. GET is read_only, PUT and DELETE are idempotent, and any other method
//     is unsafe to repeat; a member x-turnlog of the operation, a [tool.Description], can override that.
//
// A [Manager] asks each service again every few seconds. If a service does not answer, its tools leave the catalog.
//
// A request has the call's idempotency key, and is repeated as far as the effects of the tool allow (see [tool.Attempt]).
// When the call ends, its connection is closed. The answer is text, JSON or media; or a stream of lines of JSON
// (application/x-ndjson): any number of {"progress": TEXT, "share": 0.5}, then {"result": VALUE} or {"error": TEXT}.
//
// Requests go only to the origin of the service's URL and follow no redirects. They dial only public addresses, addresses
// in the URL itself, and addresses in [Config].Private. Headers are references to secrets. They are resolved for each
// request and appear in no log, error or journal.
//
// To test with it, start an httptest server.
package httptool
