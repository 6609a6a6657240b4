package openai

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// detailsField holds reasoning as a list of pieces, signed or encrypted ones
// among them, in the answers of servers that pass on other providers' models. The
// list is wanted back as it came.
const detailsField = "reasoning_details"

// think takes a delta's reasoning. A server may give it twice, under two names:
// once is enough.
func (s *chatStream) think(d delta) error {
	for _, r := range []struct {
		field string
		raw   json.RawMessage
	}{{"reasoning_content", d.ReasoningContent}, {"reasoning", d.Reasoning}} {
		var text string
		if json.Unmarshal(r.raw, &text) != nil || text == "" {
			continue
		}
		if err := s.add(content.ReasoningKind, r.field, text); err != nil {
			return err
		}
		break
	}
	return s.detail(d.ReasoningDetails)
}

// detail takes pieces of the list.
func (s *chatStream) detail(list []json.RawMessage) error {
	if len(list) == 0 {
		return nil
	}
	if !s.details.begun() { // they belong to the reasoning that shows their text
		if !s.growing || s.reply.Edit(s.open).Kind != content.ReasoningKind {
			if err := s.silentThought(); err != nil {
				return err
			}
		}
		s.detailsAt = s.open
	}
	for _, raw := range list {
		s.details.add(raw)
	}
	return nil
}

// silentThought begins a reasoning that shows nothing yet.
func (s *chatStream) silentThought() error {
	if err := s.stop(); err != nil {
		return err
	}
	p := content.Part{Kind: content.ReasoningKind, Name: Provider}
	s.m.mark(&p, nil)
	i, err := s.reply.Begin(p)
	s.open, s.growing = i, true
	return err
}

// finishDetails puts the list on its part.
func (s *chatStream) finishDetails() error {
	if !s.details.begun() {
		return nil
	}
	raw, err := s.details.list()
	if err != nil {
		return err
	}
	s.reply.Edit(s.detailsAt).Reasoning = &content.Reasoning{Encrypted: raw}
	return nil
}

// details puts the list together: consecutive pieces of one kind and number are
// one entry, whose texts are joined and whose other fields come late or once.
type details struct {
	entries []map[string]json.RawMessage
}

func (d *details) begun() bool { return len(d.entries) > 0 }

func (d *details) add(raw json.RawMessage) {
	var piece map[string]json.RawMessage
	if json.Unmarshal(raw, &piece) != nil || piece == nil {
		return
	}
	if n := len(d.entries); n > 0 && sameEntry(d.entries[n-1], piece) {
		join(d.entries[n-1], piece)
		return
	}
	d.entries = append(d.entries, piece)
}

func sameEntry(a, b map[string]json.RawMessage) bool {
	if plain(a["type"]) == "reasoning.encrypted" {
		return false // its data comes whole
	}
	return string(a["type"]) == string(b["type"]) && string(a["index"]) == string(b["index"])
}

func join(entry, piece map[string]json.RawMessage) {
	for _, k := range slices.Sorted(maps.Keys(piece)) {
		v := piece[k]
		switch {
		case string(v) == "null":
		case k == "text" || k == "summary":
			var before, more string
			if json.Unmarshal(v, &more) != nil || len(entry[k]) > 0 && json.Unmarshal(entry[k], &before) != nil {
				continue
			}
			if joined, err := json.Marshal(before + more); err == nil {
				entry[k] = joined
			}
		default:
			entry[k] = v
		}
	}
}

// list writes the entries.
func (d *details) list() ([]byte, error) {
	return json.Marshal(d.entries) //nolint:wrapcheck // not reached: it was JSON
}
