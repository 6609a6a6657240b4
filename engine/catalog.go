package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// Catalog is what the tool sources offer a session at one moment, and where its
// calls go. It is immutable.
type Catalog struct {
	tool.Catalog
	facts events.Catalog
	queue func(source string) string
}

// NewCatalog samples the sources. A session may use the allowed tools only, as [Offered]
// says; nil allows all. queue says which task queue reaches a source's tools; nil means
// that they run in this process.
func NewCatalog(
	ctx context.Context, sources []tool.Source, policy tool.Collision, allowed []string, queue func(source string) string,
) (*Catalog, error) {
	if allowed != nil {
		sources = restrict(sources, allowed)
	}
	sampled, err := tool.Sample(ctx, sources, policy)
	if err != nil {
		return nil, err
	}
	if queue == nil {
		queue = func(string) string { return "" }
	}
	c := &Catalog{Catalog: sampled, facts: events.Catalog{Digest: sampled.Digest}, queue: queue}
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

// Facts is what the journal knows of the catalog.
func (c *Catalog) Facts() *events.Catalog { return &c.facts }

// Route says where a call goes and what may be done with it. The rules, which are its
// session's, say how the loop waits for it, before its tool does.
func (c *Catalog) Route(call content.ToolCall, rules []events.RouteRule) content.Routing {
	r := content.Routing{Digest: tool.Digest(call.Input)}
	o, ok := c.Lookup(call.Name)
	if !ok {
		return r
	}
	s := o.Spec
	r.Known, r.Source, r.Queue = true, o.Source, c.queue(o.Source)
	r.Effects, r.Exclusive, r.Writes, r.Timeout, r.MaxOutput = s.Effects, s.Exclusive, s.Writes, s.Timeout, s.MaxOutput
	r.Route, r.DetachAfter = s.Route, s.DetachAfter
	i := slices.IndexFunc(rules, func(rule events.RouteRule) bool { return tool.Matching(rule.Tool)(s) })
	if i >= 0 && CheckRoutes(rules[i:i+1]) == nil { // one of a later release leaves it to the tool
		r.Route, r.DetachAfter = rules[i].Route, rules[i].DetachAfter
	}
	return r
}

// CheckRoutes returns an error if a rule cannot mean anything: it names no tool, no
// route that there is, or no time after which to detach.
func CheckRoutes(rules []events.RouteRule) error {
	for i, r := range rules {
		known := slices.Contains([]content.Route{content.Foreground, content.Background, content.DetachSoon}, r.Route)
		switch detach := r.Route == content.DetachSoon; {
		case r.Tool == "":
			return fmt.Errorf("route %d: no tool: use a name, in which * stands for any characters", i+1)
		case !known:
			return fmt.Errorf("route %d: %q: use foreground, background or detach", i+1, r.Route)
		case detach && r.DetachAfter <= 0, !detach && r.DetachAfter != 0:
			return fmt.Errorf("route %d: detach after %v: use a positive time, with the route detach only", i+1, r.DetachAfter)
		}
	}
	return nil
}

func restrict(sources []tool.Source, allowed []string) []tool.Source {
	out := make([]tool.Source, len(sources))
	for i, s := range sources {
		out[i] = restricted{s, allowed}
	}
	return out
}

// Offered reports whether a session with these patterns may use a tool. The first pattern
// that fits its name counts, and one after a ! excludes it; a tool that none fits is not
// offered. * stands for any characters.
func Offered(patterns []string, s tool.Spec) bool {
	for _, p := range patterns {
		name, excludes := strings.CutPrefix(p, "!")
		if tool.Matching(name)(s) {
			return !excludes
		}
	}
	return false
}

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

// Remote returns a stand-in for a tool that runs elsewhere: it has a spec, and
// cannot be called here. It returns an error if the spec's schema cannot be used.
func Remote(s tool.Spec) (tool.Tool, error) {
	return tool.Compile(remote{s})
}

type remote struct{ spec tool.Spec }

// Spec is the remote tool's.
func (r remote) Spec() tool.Spec { return r.spec }

// Call says that the tool is not here.
func (r remote) Call(context.Context, tool.Call) (tool.Output, error) {
	return tool.Output{}, tool.Failure(tool.CodeFailed, "tool %s runs on a worker, not here", r.spec.Name)
}
