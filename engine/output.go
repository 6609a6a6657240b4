package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// CheckSchema returns an error for a schema that no answer could be held to.
func CheckSchema(schema json.RawMessage) error {
	_, err := resolve(schema)
	return err
}

func resolve(schema json.RawMessage) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	return r, nil
}

// misfit says why a final answer does not fit the schema; empty: it does, or there is
// none, or this is no final answer.
func misfit(schema json.RawMessage, r model.Reply) string {
	if len(schema) == 0 || r.FinishReason != "" && r.FinishReason != content.Completed {
		return ""
	}
	for _, it := range r.Items {
		if len(it.Calls()) > 0 {
			return ""
		}
	}
	resolved, err := resolve(schema)
	if err != nil {
		return err.Error()
	}
	v, err := decodeOne(answer(r))
	if err != nil {
		return "it is not JSON: " + err.Error()
	}
	if err := resolved.Validate(v); err != nil {
		return err.Error()
	}
	return ""
}

// answer is the structured part of the reply's last item, or its text.
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

// decodeOne reads one JSON value and nothing after it.
func decodeOne(raw []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&v); err != nil {
		return nil, err //nolint:wrapcheck // misfit says what it is about
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("there is more after it")
	}
	return v, nil
}
