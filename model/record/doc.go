// Package record records the replies of a model in a file, called a cassette, and replays
// them without the model.
//
// A recorded reply belongs to the part of its request that the model sees: the
// transcript, the tools and the answer schema, without ids, times, usage and metadata.
// Its key is the SHA-256 of the canonical JSON (RFC 8785). [Open] with a model records
// replies and failures; without one it replays them. The same request and attempt
// always get the same reply, whatever came before.
//
// A request that is not in the cassette fails with class exhausted, code not_recorded
// and the difference from the most similar recorded request. It never reaches a model.
//
// A cassette consists of JSON lines: a header, then the exchanges in the order of
// recording. Each recorded call replaces the whole file, so readers never see half of
// one. The secrets in [Config] are removed from cassettes and from requests before they
// are looked up. Requests do not contain provider keys. Text from tools and people is
// recorded unchanged.
//
// For tests, record a scripted model.
package record
