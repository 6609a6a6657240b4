package content

// Sender is who sent a command, as a deployment knows it.
type Sender struct {
	Name    string `msgpack:"n,omitempty" json:"name,omitempty"`
	Account string `msgpack:"a,omitempty" json:"account,omitempty"` // of NATS

	// Verified means that the NATS server vouches for the sender. Otherwise the name is what the
	// message claims, and there is no account.
	Verified bool `msgpack:"v,omitempty" json:"verified,omitempty"`
}

// SenderOf returns who sent what claims to be from a name: s if it is known.
func SenderOf(claim string, s *Sender) Sender {
	if s == nil {
		return Sender{Name: claim}
	}
	return *s
}

// String returns the sender for people, who must not mistake a claim for a fact.
func (s Sender) String() string {
	switch {
	case s == Sender{}:
		return ""
	case !s.Verified:
		return s.Name + " (claimed)"
	case s.Name == "":
		return "a user of account " + s.Account
	}
	return s.Name + " of account " + s.Account
}
