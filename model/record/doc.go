// Package record keeps what a model answered in a file, a cassette, and answers from
// it again without the model.
//
// The one idea: an answer belongs to a request, and a request is what the model
// would get of it. Two requests are the same if their canonical forms are (JSON by
// RFC 8785, named by its SHA-256): the transcript, the tools and the schema of the
// answer, without ids, times, usage and metadata. [Open] with a model records its
// answers, also the failures; without one it replays them. The same request on the
// same attempt is always answered alike, whatever came before it.
//
// A request that is not on the cassette fails, with class exhausted, code
// not_recorded and the difference from the recorded request that is most like it. It
// never reaches a model.
//
// A cassette is JSON, one value a line: a header, then the exchanges in the order in
// which they were recorded. It is replaced as a whole at each recorded call, from the
// first one on, so a reader never sees half of one. Secrets that [Config] names are
// taken out of what is written, and so are they from requests that are looked up;
// keys of providers never get here, since no request holds them. What tools read and
// people write is kept as it is.
//
// To test against it, record with a scripted model.
package record
