package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/turnlog/turnlog/content"
)

// note is what a part carries in its metadata, under the provider's name, for the
// day on which it is sent back.
type note struct {
	Origin  string `json:"origin,omitempty"`  // the host that it came from
	Item    string `json:"item,omitempty"`    // Responses: id of the output item
	Phase   string `json:"phase,omitempty"`   // Responses: the message's phase
	Field   string `json:"field,omitempty"`   // Chat: the field that held the reasoning
	Refusal bool   `json:"refusal,omitempty"` // the text is a refusal
}

func noteOf(p content.Part) note {
	var n note
	raw, ok := p.Metadata.Get(Provider)
	if !ok || json.Unmarshal(raw, &n) != nil {
		return note{}
	}
	return n
}

// mine reports whether a part came from the server that is asked.
func (m *Model) mine(p content.Part) bool { return noteOf(p).Origin == m.origin }

func (m *Model) mark(p *content.Part, change func(n *note)) {
	n := noteOf(*p)
	n.Origin = m.origin
	if change != nil {
		change(&n)
	}
	p.Metadata = p.Metadata.With(Provider, n)
}

// wireIDs gives each call the id that it has on the wire.
type wireIDs map[content.CallID]string

// maxWireID is how long an id may be.
const maxWireID = 64

// wireIDs returns the ids of the calls of a transcript: the provider's where it
// names no other call, else one made from the call's place.
func (m *Model) wireIDs(items []content.Item) wireIDs {
	ids, taken := wireIDs{}, map[string]bool{}
	for _, it := range items {
		for _, p := range it.Parts {
			if p.Call == nil {
				continue
			}
			id := p.Call.ProviderID
			if id == "" || len(id) > maxWireID || taken[id] || m.picky() && !m.mine(p) {
				id = m.newID(*p.Call, taken)
			}
			taken[id] = true
			ids[p.Call.ID] = id
		}
	}
	return ids
}

// picky reports whether the server may refuse ids that it did not make. Mistral's
// and the templates of its models do.
func (m *Model) picky() bool { return m.cfg.API == Chat && !m.own }

// newID returns an id that any server takes: a picky one wants nine letters and
// digits.
func (m *Model) newID(c content.ToolCall, taken map[string]bool) string {
	id := cmp.Or(string(c.Place), string(c.ID))
	if !m.picky() {
		return id
	}
	for {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
		if short := id[:9]; !taken[short] {
			return short
		}
	}
}
