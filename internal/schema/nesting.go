package schema

import (
	"errors"
	"fmt"
)

// ErrNested is returned by CheckJSON. Do not decode the value.
var ErrNested = errors.New("the schema nests too deeply")

// JSONDepth is how deep untrusted JSON may nest. Schemas and arguments of tools nest a tenth of that.
const JSONDepth = 128

// CheckJSON returns ErrNested for JSON, or YAML in brackets, whose arrays and objects nest deeper than
// JSONDepth. It allocates nothing and accepts bytes that are not JSON.
func CheckJSON(b []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[', c == '{':
			if depth++; depth > JSONDepth {
				return fmt.Errorf("%w: more than %d levels at byte %d", ErrNested, JSONDepth, i)
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return nil
}
