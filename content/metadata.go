package content

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Metadata is a set of named JSON values, sorted by key so that equal sets have equal
// bytes. The zero value is an empty set.
type Metadata []Field

func (m Metadata) weight() (n int64) {
	for _, f := range m {
		n += 40 + int64(len(f.Key)+len(f.Value))
	}
	return n
}

// Field is one entry of [Metadata].
type Field struct {
	Key   string          `msgpack:"k"`
	Value json.RawMessage `msgpack:"v"`
}

// Reserved keys, which only Turnlog can set. See [Metadata.WithoutReserved].
const (
	MetaInterrupted     = "interrupted"      // true if a cancel cut the content off
	MetaInterruptReason = "interrupt_reason" // why the turn was cancelled
	MetaInterruptStage  = "interrupt_stage"  // model, tool, approval, yield or verify
	MetaLimitKind       = "limit_kind"       // which limit ended the turn
	MetaLimit           = "limit"            // its value
	MetaLimitUsed       = "limit_used"       // usage at that time
	MetaHook            = "hook"             // the hook that ended the turn
	MetaHookPoint       = "hook_point"       // the point of the hook
	MetaHookReason      = "hook_reason"      // the reason of the hook
	MetaToolStatus      = "tool_status"      // status of a result
	MetaFailureCode     = "failure_code"     // stable code of a failure
	MetaChangedPaths    = "changed_paths"    // paths that a tool wrote
	MetaAuthRequest     = "auth_request"     // authorization that a tool needs
	MetaTruncated       = "truncated"        // output was cut
	MetaWithheld        = "withheld"         // a hook vetoed the reply
)

// Reserved reports whether only Turnlog can set the key.
func Reserved(key string) bool {
	switch key {
	case MetaInterrupted, MetaInterruptReason, MetaInterruptStage, MetaLimitKind, MetaLimit, MetaLimitUsed,
		MetaHook, MetaHookPoint, MetaHookReason, MetaToolStatus, MetaFailureCode, MetaChangedPaths,
		MetaAuthRequest, MetaTruncated, MetaWithheld:
		return true
	}
	return false
}

// Get returns the value of a key and reports whether there is one.
func (m Metadata) Get(key string) (json.RawMessage, bool) {
	i, ok := m.find(key)
	if !ok {
		return nil, false
	}
	return m[i].Value, true
}

// Text returns the value of a key if it is a string, otherwise "".
func (m Metadata) Text(key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// With returns a copy of m in which the key has the value, encoded as JSON. A value
// without a JSON form is stored as printed by fmt.
func (m Metadata) With(key string, value any) Metadata {
	raw, err := json.Marshal(value)
	if err != nil {
		raw, _ = json.Marshal(fmt.Sprint(value))
	}
	out := slices.Clone(m)
	i, ok := out.find(key)
	if ok {
		out[i].Value = raw
		return out
	}
	return slices.Insert(out, i, Field{Key: key, Value: raw})
}

// WithoutReserved returns m without the reserved keys.
func (m Metadata) WithoutReserved() Metadata {
	if !slices.ContainsFunc(m, func(f Field) bool { return Reserved(f.Key) }) {
		return m
	}
	return slices.DeleteFunc(slices.Clone(m), func(f Field) bool { return Reserved(f.Key) })
}

// MarshalJSON encodes m as a JSON object.
func (m Metadata) MarshalJSON() ([]byte, error) {
	obj := make(map[string]json.RawMessage, len(m))
	for _, f := range m {
		if obj[f.Key] = f.Value; len(f.Value) == 0 {
			obj[f.Key] = nil // null
		}
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return b, nil
}

// UnmarshalJSON decodes a JSON object.
func (m *Metadata) UnmarshalJSON(b []byte) error {
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(b, &obj); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	*m = nil
	for k, v := range obj {
		i, _ := m.find(k)
		*m = slices.Insert(*m, i, Field{Key: k, Value: v})
	}
	return nil
}

// detached returns a deep copy of m.
func (m Metadata) detached() Metadata {
	out := slices.Clone(m)
	for i := range out {
		out[i].Value = slices.Clone(out[i].Value)
	}
	return out
}

func (m Metadata) find(key string) (int, bool) {
	return slices.BinarySearchFunc(m, key, func(f Field, k string) int { return strings.Compare(f.Key, k) })
}
