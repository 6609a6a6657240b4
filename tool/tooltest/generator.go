package tooltest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// generator makes random values that roughly match a schema.
type generator struct {
	rng  *rand.Rand
	root *jsonschema.Schema
}

// texts are strings that tools often handle badly. They are harmless as paths, patterns
// and commands.
func texts() []string {
	return []string{
		"", " ", "a", "a.txt", ".", "..", "../..", "/", "/no/such/file", "a/../..", "a/b/c", "~", "-", "--", "-1", "*", "**/*",
		"[", "(", "{a,b}", "\\", "\n", "a\nb", "a\tb", "\x00", "a\x00b", "é🙂", "\u202e", "%s%d%n", "'", "\"", "$(", "null", "0",
		strings.Repeat("x", 300), strings.Repeat("x/", 2000),
	}
}

func (g generator) value(s *jsonschema.Schema, depth int) any {
	switch {
	case strings.HasPrefix(s.Ref, "#/$defs/") && depth < 8:
		if target := s.Ref[len("#/$defs/"):]; g.root.Defs[target] != nil {
			return g.value(g.root.Defs[target], depth+1)
		}
	case len(s.Enum) > 0:
		return pick(g.rng, s.Enum)
	case s.Const != nil:
		return *s.Const
	case len(s.AnyOf) > 0:
		return g.value(pick(g.rng, s.AnyOf), depth+1)
	case len(s.OneOf) > 0:
		return g.value(pick(g.rng, s.OneOf), depth+1)
	}
	kind := s.Type
	if len(s.Types) > 0 {
		kind = pick(g.rng, s.Types)
	}
	switch kind {
	case "null":
		return nil
	case "boolean":
		return g.rng.IntN(2) == 0
	case "string":
		return pick(g.rng, texts())
	case "integer":
		return g.number(s, []float64{0, 1, 2, 3, 10, 100, -1, -100, 1e6, 1e15, -1e15})
	case "number":
		return g.number(s, []float64{0, 0.5, 1, -1, 1.5, 1e-9, 1e9, 1e300, -1e300})
	case "array":
		return g.array(s, depth)
	default:
		return g.object(s, depth)
	}
}

func (g generator) number(s *jsonschema.Schema, from []float64) float64 {
	n := pick(g.rng, from)
	if s.Minimum != nil {
		n = max(n, *s.Minimum)
	}
	if s.Maximum != nil {
		n = min(n, *s.Maximum)
	}
	return n
}

func (g generator) array(s *jsonschema.Schema, depth int) []any {
	out := []any{}
	n := g.rng.IntN(4)
	if s.MinItems != nil {
		n = max(n, *s.MinItems)
	}
	if s.Items == nil || depth > 8 {
		return out
	}
	for range n {
		out = append(out, g.value(s.Items, depth+1))
	}
	return out
}

func (g generator) object(s *jsonschema.Schema, depth int) map[string]any {
	out := make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) || depth < 8 && g.rng.IntN(3) == 0 {
			out[name] = g.value(s.Properties[name], depth+1)
		}
	}
	if more := s.AdditionalProperties; more != nil && more.Not == nil && depth < 8 {
		for range g.rng.IntN(3) {
			out[pick(g.rng, texts())] = g.value(more, depth+1)
		}
	}
	return out
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }
