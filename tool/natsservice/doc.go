// Package natsservice turns microservices of NATS into tools (the protocol of nats.go/micro, which clients of NATS in other
// languages have, too).
//
// The one idea: what answers on a subject is a tool like any other. A worker claims the call, holds its lease, and reports the
// result with its ticket; the service only gets a request, whose queue group spreads the calls over its instances.
//
// Each endpoint with a schema in its metadata is a tool, SERVICE_ENDPOINT. The metadata are those of a [tool.Description],
// as texts: input, which makes it a tool, description, output_schema, effects, exclusive and timeout. Its subject begins with the name of
// the service and a dot: a worker publishes nowhere else, whatever a service says about itself.
//
// A [Manager] asks for each service again every second. If no instance answers, its tools leave the catalog. Of several versions,
// the newest counts.
//
// A request has the call's idempotency key in a header, and it is repeated as far as the effects of the tool allow (see
// [tool.Attempt]). The first answer without the header Turnlog-Progress is the outcome; any before it are progress, and the
// header says which share of the work is done. If the call ends early, a message to SERVICE.cancel has its idempotency key.
//
// To test with it, add a service of nats.go/micro to a connection of an embedded server.
package natsservice
