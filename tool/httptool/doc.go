// Package httptool turns HTTP endpoints into tools, whatever language they are written in.
//
// The one idea: what runs on the other side of a URL is a tool like any other. A worker claims the call, holds its lease, and
// reports the result with its ticket; the service only gets a request. So a service needs no client of NATS and no state.
//
// A service describes itself at its URL, in one of two forms:
//
//   - a manifest, a [tool.Description] in JSON. It is one tool with the name of the service, and a call is a POST of the
//     input to the same URL;
//   - an OpenAPI 3 document in JSON. Each operation is a tool, NAME_operationId. Its parameters are properties of the
//     input, and its JSON body is the property body. GET is read_only, PUT and DELETE are idempotent, and any other method
//     may do harm; a member x-turnlog of the operation, a [tool.Description], says otherwise.
//
// A [Manager] asks each service again every few seconds. The tools of one that does not answer leave the catalog.
//
// A request has the call's idempotency key, and it is repeated as far as the effects of the tool allow (see [tool.Attempt]).
// The end of the call closes its connection. The answer is text, JSON or media; or a stream of lines of JSON (application/x-ndjson):
// any number of {"progress": TEXT, "share": 0.5}, then {"result": VALUE} or {"error": TEXT}.
//
// Requests go only to the origin of the service's URL, follow no redirects, and dial only public addresses, those that the
// URL itself names, and those in [Config].Private. Headers are references to secrets, resolved for each request, and in no
// log, error or journal.
//
// To test with it, start an httptest server.
package httptool
