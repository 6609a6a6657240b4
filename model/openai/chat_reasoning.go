package openai

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/content"
)

// detailsField is the field in which proxies of other providers return reasoning: a
// list of entries, some signed or encrypted, which they want back unchanged.
const detailsField = "reasoning_details"

// think handles the reasoning of a delta. A server may send it under two names; one
// is enough.
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

// detail handles entries of the list.
func (s *chatStream) detail(list []json.RawMessage) error {
	if len(list) == 0 {
		return nil
	}
	if !s.details.begun() { // attach them to the reasoning with their text
		i, err := s.grow(content.ReasoningKind, "", "")
		if err != nil {
			return err
		}
		s.detailsAt = i
	}
	for _, raw := range list {
		s.details.add(raw)
	}
	return nil
}

// finishDetails adds the list to its part.
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

// details collects the list. Consecutive pieces with the same type and index are one
// entry: their texts are joined, and the last value of any other field counts.
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
		return false // its data is not split
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

// list returns the entries as JSON.
func (d *details) list() ([]byte, error) {
	return json.Marshal(d.entries) //nolint:wrapcheck // impossible: it was JSON
}
