package content

// GateKey names one question about a call. An approval answers exactly that
// question: neither one of another kind nor, where a scope is given, one about
// something else.
type GateKey struct {
	Kind  string `msgpack:"k" json:"request_kind"`
	Scope string `msgpack:"s,omitempty" json:"scope,omitempty"` // what it is about: a program, a path; empty: the call as such
}
