package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	sdk "github.com/anthropics/anthropic-sdk-go"
)

// custom is a block that is kept as JSON.
type custom struct {
	raw   json.RawMessage            // at its start
	later map[string]json.RawMessage // fields from deltas
	input []byte                     // arguments of a call that the provider runs
}

// grow adds the fields of a delta. It joins fragments of arguments.
func (c *custom) grow(ev sdk.BetaRawMessageStreamEventUnion) error {
	if ev.Delta.Type == "input_json_delta" {
		c.input = append(c.input, ev.Delta.PartialJSON...)
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(ev.JSON.Delta.Raw()), &fields); err != nil {
		return &protocolError{"a delta is not a JSON object"}
	}
	for name, value := range fields {
		if name == "type" {
			continue
		}
		if c.later == nil {
			c.later = map[string]json.RawMessage{}
		}
		c.later[name] = value
	}
	return nil
}

// whole returns the complete block. A block without deltas stays unchanged byte for
// byte.
func (c *custom) whole() (json.RawMessage, error) {
	if len(c.later) == 0 && len(c.input) == 0 {
		return c.raw, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(c.raw, &fields); err != nil {
		return nil, &protocolError{fmt.Sprintf("a block is not a JSON object: %v", err)}
	}
	maps.Copy(fields, c.later)
	if json.Valid(c.input) {
		fields["input"] = c.input
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // keep the provider's strings
	if err := enc.Encode(fields); err != nil {
		return nil, &protocolError{fmt.Sprintf("a block is not JSON: %v", err)}
	}
	return bytes.TrimSpace(out.Bytes()), nil
}
