package tool

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// places knows every schema within a schema by the ways to refer to it.
type places struct {
	root  *jsonschema.Schema
	names map[string]*jsonschema.Schema // by JSON pointer and by anchor
	order []*jsonschema.Schema
}

// survey finds the schemas within root. It refuses one that applies itself to the
// same value without end, since that would overflow the stack of whoever
// validates, which cannot be recovered from; and references that lead out of
// root, since nothing is fetched.
func survey(root *jsonschema.Schema) (*places, error) {
	p := &places{root: root, names: make(map[string]*jsonschema.Schema)}
	if err := p.collect(root, ""); err != nil {
		return nil, err
	}
	open := make(map[*jsonschema.Schema]bool)
	for _, s := range p.order {
		if err := p.descend(s, open); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *places) collect(s *jsonschema.Schema, pointer string) error {
	if s.ID != "" && s != p.root {
		return fmt.Errorf("$id %q below the root: refer to definitions within the schema instead", s.ID)
	}
	p.names[pointer] = s
	for _, anchor := range []string{s.Anchor, s.DynamicAnchor} {
		if anchor != "" {
			p.names[anchor] = s
		}
	}
	p.order = append(p.order, s)
	for _, c := range children(s) {
		if err := p.collect(c.schema, pointer+"/"+c.token); err != nil {
			return err
		}
	}
	return nil
}

// descend follows what is applied to the same value as s. open holds the schemas
// on the way, and false for those that are known to end.
func (p *places) descend(s *jsonschema.Schema, open map[*jsonschema.Schema]bool) error {
	if on, seen := open[s]; on {
		return errors.New("it refers to itself without end")
	} else if seen {
		return nil
	}
	open[s] = true
	for _, ref := range []string{s.Ref, s.DynamicRef} {
		if ref == "" {
			continue
		}
		target := p.target(ref)
		if target == nil {
			return fmt.Errorf("$ref %q leads nowhere: refer to definitions within the schema", ref)
		}
		if err := p.descend(target, open); err != nil {
			return err
		}
	}
	for _, c := range children(s) {
		if !c.same {
			continue
		}
		if err := p.descend(c.schema, open); err != nil {
			return err
		}
	}
	open[s] = false
	return nil
}

// target returns the schema that ref names, or nil.
func (p *places) target(ref string) *jsonschema.Schema {
	name, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil
	}
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return p.names[name]
}

// child is a schema directly within another one.
type child struct {
	token  string // its way there, as in a JSON pointer
	schema *jsonschema.Schema
	same   bool // applies to the same value as its parent
}

// children lists the schemas directly within s, in a fixed order.
func children(s *jsonschema.Schema) []child {
	var out []child
	one := func(token string, c *jsonschema.Schema, same bool) {
		if c != nil {
			out = append(out, child{token, c, same})
		}
	}
	list := func(token string, cs []*jsonschema.Schema, same bool) {
		for i, c := range cs {
			one(token+"/"+strconv.Itoa(i), c, same)
		}
	}
	named := func(token string, cs map[string]*jsonschema.Schema, same bool) {
		for _, name := range slices.Sorted(maps.Keys(cs)) {
			escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			one(token+"/"+escaped, cs[name], same)
		}
	}
	named("$defs", s.Defs, false)
	named("definitions", s.Definitions, false)
	named("properties", s.Properties, false)
	named("patternProperties", s.PatternProperties, false)
	one("additionalProperties", s.AdditionalProperties, false)
	one("unevaluatedProperties", s.UnevaluatedProperties, false)
	one("propertyNames", s.PropertyNames, false)
	one("items", s.Items, false)
	list("items", s.ItemsArray, false)
	list("prefixItems", s.PrefixItems, false)
	one("additionalItems", s.AdditionalItems, false)
	one("unevaluatedItems", s.UnevaluatedItems, false)
	one("contains", s.Contains, false)
	one("contentSchema", s.ContentSchema, false)
	list("allOf", s.AllOf, true)
	list("anyOf", s.AnyOf, true)
	list("oneOf", s.OneOf, true)
	one("not", s.Not, true)
	one("if", s.If, true)
	one("then", s.Then, true)
	one("else", s.Else, true)
	named("dependentSchemas", s.DependentSchemas, true)
	named("dependencies", s.DependencySchemas, true)
	return out
}
