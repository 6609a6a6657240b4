package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// Catalog lists the tools that the sources offer a session at one moment, and where calls of them go. It
// is immutable.
type Catalog struct {
	tool.Catalog
	specs  []tool.Spec
	facts  events.Catalog
	remote bool // calls go to the queue with their source's name; otherwise they run in this process
}

// NewCatalog samples the sources. A session may use only the allowed tools, as [Offered]
// reports; nil allows all. If remote is set, a source's calls go to the queue of its name.
func NewCatalog(ctx context.Context, sources []tool.Source, policy tool.Collision, allowed []string, remote bool) (*Catalog, error) {
	if allowed != nil {
		sources = slices.Clone(sources)
		for i, s := range sources {
			sources[i] = Only(s, allowed)
		}
	}
	sampled, err := tool.Sample(ctx, sources, policy)
	if err != nil {
		return nil, err
	}
	c := &Catalog{Catalog: sampled, specs: sampled.Specs(), facts: events.Catalog{Digest: sampled.Digest}, remote: remote}
	for _, s := range sources {
		cs := events.CatalogSource{Name: s.Name()}
		for _, o := range sampled.Offers {
			if o.Source == s.Name() {
				cs.Tools = append(cs.Tools, events.ToolRef{Name: o.Spec.Name, Digest: o.Digest})
			}
		}
		c.facts.Sources = append(c.facts.Sources, cs)
	}
	return c, nil
}

// Specs lists what a model sees, sorted by name. All requests of a model share the list.
func (c *Catalog) Specs() []tool.Spec { return c.specs }

// Facts returns what the journal records of the catalog.
func (c *Catalog) Facts() *events.Catalog { return &c.facts }

// Route returns where a call goes and how it may be treated. If a rule of the session matches, it
// decides how the loop waits for the call. Otherwise the tool decides.
func (c *Catalog) Route(call content.ToolCall, rules []events.RouteRule) content.Routing {
	r := content.Routing{Digest: tool.Digest(call.Input)}
	o, ok := c.Lookup(call.Name)
	if !ok {
		return r
	}
	s := o.Spec
	r.Known, r.Source = true, o.Source
	if c.remote {
		r.Queue = o.Source
	}
	r.Effects, r.Exclusive, r.Writes, r.Timeout, r.MaxOutput = s.Effects, s.Exclusive, s.Writes, s.Timeout, s.MaxOutput
	r.Route, r.DetachAfter = s.Route, s.DetachAfter
	if declared := tool.Declared(o.Tool); declared.Effects != r.Effects {
		effects := declared.Effects
		r.Declared = &effects
	}
	i := slices.IndexFunc(rules, func(rule events.RouteRule) bool { return content.Matches(rule.Tool, s.Name) })
	if i >= 0 && rules[i].Check() == nil { // otherwise a later release wrote the rule
		r.Route, r.DetachAfter = rules[i].Route, rules[i].DetachAfter
	}
	return r
}

// Offered reports whether a session with these patterns may use a tool. The first pattern that
// matches its name counts; a ! before it excludes the tool. A tool without a match is not offered.
// * matches any characters.
func Offered(patterns []string, s tool.Spec) bool {
	for _, p := range patterns {
		name, excludes := strings.CutPrefix(p, "!")
		if content.Matches(name, s.Name) {
			return !excludes
		}
	}
	return false
}

// Only returns a source that offers only the allowed tools of another one, as [Offered] reports.
func Only(s tool.Source, allowed []string) tool.Source { return restricted{s, allowed} }

// restricted offers only the allowed tools of a source.
type restricted struct {
	tool.Source
	allowed []string
}

// Tools lists the allowed tools that the source offers.
func (r restricted) Tools(ctx context.Context) ([]tool.Tool, error) {
	all, err := r.Source.Tools(ctx)
	if err != nil {
		return nil, err
	}
	var out []tool.Tool
	for _, t := range all {
		if Offered(r.allowed, t.Spec()) {
			out = append(out, t)
		}
	}
	return out, nil
}

// Remote returns a stand-in for a tool that runs elsewhere: it has a spec and cannot be called
// here. It returns an error for an unusable schema.
func Remote(s tool.Spec) (tool.Tool, error) { return tool.Compile(remote{s}) }

type remote struct{ spec tool.Spec }

// Spec returns the remote tool's spec.
func (r remote) Spec() tool.Spec { return r.spec }

// Call always fails: the tool runs elsewhere.
func (r remote) Call(context.Context, tool.Call) (tool.Output, error) {
	return tool.Output{}, tool.Failure(tool.CodeFailed, "tool %s runs on a worker, not here", r.spec.Name)
}
