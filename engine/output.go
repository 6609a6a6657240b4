package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/schema"
	"github.com/turnlog/turnlog/model"
)

// CheckSchema returns an error for a schema that cannot be used to check an answer.
func CheckSchema(raw json.RawMessage) error {
	if _, err := schema.Compile(raw); err != nil {
		return fmt.Errorf("output schema: %w", err)
	}
	return nil
}

// mismatch returns why a final answer does not match the schema. It returns "" if it matches, if
// there is no schema, or if the answer is not final.
func mismatch(raw json.RawMessage, r model.Reply) string {
	calls := func(it content.Item) bool { return len(it.Calls()) > 0 }
	if len(raw) == 0 || r.FinishReason != "" && r.FinishReason != content.Completed || slices.ContainsFunc(r.Items, calls) {
		return ""
	}
	s, err := schema.Compile(raw)
	if err != nil {
		return "output schema: " + err.Error()
	}
	var v any
	if err := schema.CheckJSON(answer(r)); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal(answer(r), &v); err != nil {
		return "it is not JSON: " + err.Error()
	}
	if err := s.Check(v); err != nil {
		return err.Error()
	}
	return ""
}

// answer returns the structured part of the reply's last item, or its text.
func answer(r model.Reply) []byte {
	if len(r.Items) == 0 {
		return nil
	}
	last := r.Items[len(r.Items)-1]
	for _, p := range last.Parts {
		if p.Kind == content.StructuredKind {
			return p.Data
		}
	}
	return []byte(strings.TrimSpace(last.Text()))
}
