package openai

import (
	"bytes"
	"encoding/json"

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

// detail handles pieces of the list. Consecutive ones with the same type and index are
// one entry: their texts are joined, and the last value of any other field counts.
//
// Values stay as they were sent: providers sign them, and a number need not fit a float.
func (s *chatStream) detail(list []map[string]json.RawMessage) error {
	for _, piece := range list {
		n := len(s.details)
		switch {
		case piece == nil:
			continue // not an object
		case n == 0: // the list belongs to the reasoning part with its text
			i, err := s.grow(content.ReasoningKind, "", "")
			if err != nil {
				return err
			}
			s.detailsAt = i
		case sameEntry(s.details[n-1], piece):
			join(s.details[n-1], piece)
			continue
		}
		s.details = append(s.details, piece)
	}
	return nil
}

func sameEntry(a, b map[string]json.RawMessage) bool {
	return string(a["type"]) != `"reasoning.encrypted"` && // its data is not split
		bytes.Equal(a["type"], b["type"]) && bytes.Equal(a["index"], b["index"])
}

func join(entry, piece map[string]json.RawMessage) {
	for k, v := range piece {
		var before, more string
		switch {
		case string(v) == "null":
		case (k == "text" || k == "summary") && json.Unmarshal(entry[k], &before) == nil && json.Unmarshal(v, &more) == nil:
			entry[k], _ = json.Marshal(before + more) // never fails for a string
		default:
			entry[k] = v
		}
	}
}

// finishDetails adds the list to its part.
func (s *chatStream) finishDetails() error {
	if len(s.details) == 0 {
		return nil
	}
	raw, err := json.Marshal(s.details)
	s.reply.Edit(s.detailsAt).Reasoning = &content.Reasoning{Encrypted: raw}
	return err //nolint:wrapcheck // impossible: it was JSON
}
