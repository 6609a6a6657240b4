package events

import (
	"slices"
	"strings"
)

// ToolRef names a tool and the digest of its spec.
type ToolRef struct {
	Name   string `msgpack:"n" json:"name"`
	Digest string `msgpack:"d" json:"digest"`
}

// CatalogSource lists the tools of one source, sorted by name.
type CatalogSource struct {
	Name  string    `msgpack:"n" json:"name"`
	Tools []ToolRef `msgpack:"t,omitempty" json:"tools,omitempty"`
}

// Catalog lists the tools of all sources, in order of registration. Digest covers the
// specs, so equal digests mean equal requests.
type Catalog struct {
	Digest  string          `msgpack:"d,omitempty" json:"digest,omitempty"`
	Sources []CatalogSource `msgpack:"s,omitempty" json:"sources,omitempty"`
}

// ToolCatalogChanged records that the tools of a source have changed since the last
// model call. The next request contains the new ones.
type ToolCatalogChanged struct {
	Source  string    `msgpack:"s" json:"source"`
	Added   []ToolRef `msgpack:"a,omitempty" json:"added,omitempty"`
	Removed []string  `msgpack:"r,omitempty" json:"removed,omitempty"`
	Changed []ToolRef `msgpack:"c,omitempty" json:"changed,omitempty"`
	Digest  string    `msgpack:"d" json:"digest"` // of the whole catalog after the change
}

// Changes returns the changes from c to now, one per changed source. Removed sources come last.
func (c Catalog) Changes(now Catalog) []ToolCatalogChanged {
	if c.Digest == now.Digest {
		return nil
	}
	var out []ToolCatalogChanged
	known := func(s CatalogSource) bool { return now.index(s.Name) >= 0 }
	removed := slices.DeleteFunc(slices.Clone(c.Sources), known)
	for _, source := range slices.Concat(now.Sources, removed) {
		change := ToolCatalogChanged{Source: source.Name, Digest: now.Digest}
		before, after := c.tools(source.Name), now.tools(source.Name)
		for _, t := range after {
			switch i := indexTool(before, t.Name); {
			case i < 0:
				change.Added = append(change.Added, t)
			case before[i].Digest != t.Digest:
				change.Changed = append(change.Changed, t)
			}
		}
		for _, t := range before {
			if indexTool(after, t.Name) < 0 {
				change.Removed = append(change.Removed, t.Name)
			}
		}
		if len(change.Added)+len(change.Changed)+len(change.Removed) > 0 {
			out = append(out, change)
		}
	}
	return out
}

// With returns the catalog after a change.
func (c Catalog) With(change ToolCatalogChanged) Catalog {
	out := Catalog{Digest: change.Digest, Sources: slices.Clone(c.Sources)}
	i := out.index(change.Source)
	if i < 0 {
		i = len(out.Sources)
		out.Sources = append(out.Sources, CatalogSource{Name: change.Source})
	}
	tools := slices.DeleteFunc(slices.Clone(out.Sources[i].Tools), func(t ToolRef) bool {
		return slices.Contains(change.Removed, t.Name) || indexTool(change.Changed, t.Name) >= 0
	})
	tools = append(append(tools, change.Added...), change.Changed...)
	slices.SortFunc(tools, func(a, b ToolRef) int { return strings.Compare(a.Name, b.Name) })
	out.Sources[i].Tools = tools
	return out
}

func (c Catalog) index(source string) int {
	return slices.IndexFunc(c.Sources, func(s CatalogSource) bool { return s.Name == source })
}

func (c Catalog) tools(source string) []ToolRef {
	if i := c.index(source); i >= 0 {
		return c.Sources[i].Tools
	}
	return nil
}

func indexTool(tools []ToolRef, name string) int {
	return slices.IndexFunc(tools, func(t ToolRef) bool { return t.Name == name })
}
