// Package natsservice turns NATS microservices into tools. They use the protocol of nats.go/micro, which NATS clients in
// other languages also support.
//
// An endpoint on a subject is a tool like any other. A worker claims the call, holds its lease, and reports the result with
// its ticket; the service only gets a request. Its queue group spreads the calls over its instances.
//
// Each endpoint with a schema in its metadata is a tool, SERVICE_ENDPOINT. The metadata keys are the fields of a
// [tool.Description], as text: input, which makes the endpoint a tool, description, output_schema, effects, exclusive and
// timeout. The subject begins with the name of the service and a dot: a worker publishes nowhere else, whatever a service
// says about itself.
//
// A [Manager] asks for each service again every second. If no instance answers, its tools leave the catalog. If instances
// have different versions, the newest one counts.
//
// A request has the call's idempotency key in a header, and is repeated as far as the effects of the tool allow (see
// [tool.Attempt]). The first answer without the header Turnlog-Progress is the outcome. Answers before it are progress, and
// the header says which share of the work is done. If the call ends early, a message with its idempotency key goes to
// SERVICE.cancel.
//
// To test with it, add a service of nats.go/micro to a connection of an embedded server.
package natsservice
