package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/turnlog/turnlog/content"
)

// note is metadata of a part, under the provider's name, for sending the part back.
type note struct {
	Origin  string `json:"origin,omitempty"`  // the host that sent it
	Item    string `json:"item,omitempty"`    // Responses: the id of the output item
	Phase   string `json:"phase,omitempty"`   // Responses: the message's phase
	Field   string `json:"field,omitempty"`   // Chat: the field of the reasoning
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

// owns reports whether a part came from this server.
func (m *Model) owns(p content.Part) bool { return noteOf(p).Origin == m.origin }

func (m *Model) mark(p *content.Part, change func(n *note)) {
	n := noteOf(*p)
	n.Origin = m.origin
	if change != nil {
		change(&n)
	}
	p.Metadata = p.Metadata.With(Provider, n)
}

type wireIDs map[content.CallID]string

// maxWireID is the maximum length of an id.
const maxWireID = 64

// wireIDs returns unique ids for the calls of a transcript: the provider's, or one
// derived from the call's place.
func (m *Model) wireIDs(items []content.Item) wireIDs {
	ids, taken := wireIDs{}, map[string]bool{}
	for _, it := range items {
		for _, p := range it.Parts {
			if p.Call == nil {
				continue
			}
			id := p.Call.ProviderID
			if id == "" || len(id) > maxWireID || taken[id] || m.checksIDs() && !m.owns(p) {
				id = m.newID(*p.Call, taken)
			}
			taken[id] = true
			ids[p.Call.ID] = id
		}
	}
	return ids
}

// checksIDs reports whether the server may reject ids that it did not make. Mistral's
// servers and the templates of its models do.
func (m *Model) checksIDs() bool { return m.cfg.API == Chat && !m.own }

// newID returns an id that every server accepts. Picky ones want nine letters and
// digits.
func (m *Model) newID(c content.ToolCall, taken map[string]bool) string {
	id := cmp.Or(string(c.Place), string(c.ID))
	if !m.checksIDs() {
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
