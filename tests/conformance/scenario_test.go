package conformance

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
)

// scenario is one file.
type scenario struct {
	name string

	About    string        `yaml:"about"`
	Covers   []string      `yaml:"covers"`   // rules of README.md
	Script   string        `yaml:"script"`   // of the model
	Stutters string        `yaml:"stutters"` // what the model streams before an attempt fails
	Lines    bool          `yaml:"lines"`    // each line of a reply's text becomes a separate item; the script counts items
	Tools    []toolSpec    `yaml:"tools"`
	Hooks    []hookSpec    `yaml:"hooks"`
	Mutators []mutatorSpec `yaml:"mutators"`
	Memory   *memorySpec   `yaml:"memory"`
	Config   config        `yaml:"config"`
	Agent    string        `yaml:"agent"` // the file of the session's agent, instead of config
	Steps    []step        `yaml:"steps"`

	// Policy is the host's policy; none: every call is allowed. The policy named default is that of a host that states
	// none.
	Policy *permission.Deployment `yaml:"policy"`

	Transcript []string       `yaml:"transcript"` // what must remain
	Events     []string       `yaml:"events"`     // must occur in this order, with others between them; see words
	Never      []string       `yaml:"never"`      // must not occur
	Ran        map[string]int `yaml:"ran"`        // how often each tool must have begun, where no node died
	Asked      map[string]int `yaml:"asked"`      // how often each hook must have been asked, where no node died

	NotIn map[string]string `yaml:"not_in"` // shapes in which it does not run, with the reason
}

// policy returns the host's policy, as its configuration states it.
func (sc *scenario) policy() *permission.Deployment {
	switch {
	case sc.Policy == nil:
		return permission.AllowAll()
	case sc.Policy.Name == permission.Default().Name:
		return nil
	}
	return sc.Policy
}

// toolSpec is a tool and the policy for it.
type toolSpec struct {
	Name      string          `yaml:"name"`
	Effects   content.Effects `yaml:"effects"`
	Route     content.Route   `yaml:"route"`
	Detach    time.Duration   `yaml:"detach_after"`
	Exclusive bool            `yaml:"exclusive"`
	Timeout   time.Duration   `yaml:"timeout"`
	Required  string          `yaml:"required"` // a field of its input
	Hidden    bool            `yaml:"hidden"`   // not on offer until an act offers it
	Proposes  string          `yaml:"proposes"` // the kind of its request, whose target is its input

	Takes    time.Duration `yaml:"takes"`    // until it answers
	Stubborn bool          `yaml:"stubborn"` // and it ignores a cancel
	Text     string        `yaml:"text"`     // its answer; empty: its input
	Creates  string        `yaml:"creates"`  // a file in the session's root
	Fails    string        `yaml:"fails"`    // with this
	Retry    string        `yaml:"retry"`    // a hint to the model
	Forbids  string        `yaml:"forbids"`  // code: message, where it runs
	Auth     string        `yaml:"auth"`     // the provider that has to authorize it
	Breaks   string        `yaml:"breaks"`   // it panics with this

	Ask     []string      `yaml:"ask"`      // questions
	TTL     time.Duration `yaml:"ttl"`      // of those questions
	Deny    string        `yaml:"deny"`     // code: message
	LateAsk string        `yaml:"late_ask"` // the question that it raises while it runs
	AskIn   time.Duration `yaml:"ask_in"`   // after this time
}

// hookSpec is a hook.
type hookSpec struct {
	Name     string            `yaml:"name"`
	Points   []extension.Point `yaml:"points"`
	Action   string            `yaml:"action"` // skip or terminate; empty: continue
	Reason   string            `yaml:"reason"`
	Fails    string            `yaml:"fails"` // with this
	FailOpen bool              `yaml:"fail_open"`
	Round    *int              `yaml:"round"` // acts in that round only, counted from 0
	Tool     string            `yaml:"tool"`  // acts on calls of that tool only
	Says     string            `yaml:"says"`  // acts on replies with this in their text only
	Input    string            `yaml:"input"` // acts on calls with this in their arguments only
	Cache    string            `yaml:"cache"` // acts on requests with an output schema and this cache mode only
}

// mutatorSpec is a mutator. It acts at its points if there are more items than Over.
type mutatorSpec struct {
	Name       string            `yaml:"name"`
	At         []extension.Point `yaml:"at"`
	Over       int               `yaml:"over"`
	DropFirst  int               `yaml:"drop_first"`  // items
	DropLast   int               `yaml:"drop_last"`   // items
	Double     bool              `yaml:"double"`      // the last item
	Append     string            `yaml:"append"`      // an item with this text
	Kind       content.Kind      `yaml:"kind"`        // of Append
	KeepRecent int               `yaml:"keep_recent"` // items, as package compact does it
	Saves      int64             `yaml:"saves"`       // the number of tokens that it claims to save
	Rewrites   bool              `yaml:"rewrites"`    // it replaces the transcript with itself
	Fails      string            `yaml:"fails"`       // with this, after all that
	Hangs      bool              `yaml:"hangs"`       // until it is stopped
}

// memorySpec is a memory with one item.
type memorySpec struct {
	Knows string `yaml:"knows"`
	Fails string `yaml:"fails"`
}

// config is the part of a session's configuration that scenarios change.
type config struct {
	System        string        `yaml:"system"`
	MaxParallel   int           `yaml:"max_parallel"`
	FailRun       bool          `yaml:"fail_run"`
	Limits        limits        `yaml:"limits"`
	SessionLimits limits        `yaml:"session_limits"`
	ApprovalTTL   time.Duration `yaml:"approval_ttl"`
	ModelAttempts int           `yaml:"model_attempts"`
	NotifyOnly    bool          `yaml:"notify_only"`
	Unstepped     bool          `yaml:"unstepped"`
	Cache         string        `yaml:"cache"` // its mode
	Rules         []rule        `yaml:"rules"`
	Routes        []route       `yaml:"routes"`
	Output        *output       `yaml:"output"`
	Transcript    []preloaded   `yaml:"transcript"`
	Uses          []string      `yaml:"uses"` // tools; empty: all on offer
}

type rule struct {
	Tool   string        `yaml:"tool"`
	Action events.Action `yaml:"action"`
}

type route struct {
	Tool   string        `yaml:"tool"`
	Route  content.Route `yaml:"route"`
	Detach time.Duration `yaml:"detach_after"`
}

type output struct {
	Schema  string `yaml:"schema"`
	Repairs int    `yaml:"repairs"`
}

// preloaded is an item at the start of the session.
type preloaded struct {
	Kind content.Kind `yaml:"kind"`
	Text string       `yaml:"text"`
}

type limits struct {
	Rounds    int64         `yaml:"rounds"`
	Requests  int64         `yaml:"requests"`
	ToolCalls int64         `yaml:"tool_calls"`
	Input     int64         `yaml:"input_tokens"`
	Output    int64         `yaml:"output_tokens"`
	Total     int64         `yaml:"tokens"`
	WallClock time.Duration `yaml:"wall_clock"`
}

func (l limits) of() events.Limits {
	return events.Limits{
		MaxRounds: l.Rounds, Requests: l.Requests, ToolCalls: l.ToolCalls,
		InputTokens: l.Input, OutputTokens: l.Output, TotalTokens: l.Total, WallClock: l.WallClock,
	}
}

// facts returns the recorded configuration, the same in every shape.
func (c config) facts() events.Config {
	out := events.Config{
		MaxParallel: c.MaxParallel, FailRun: c.FailRun, Limits: c.Limits.of(), SessionLimits: c.SessionLimits.of(),
		ApprovalTTL: c.ApprovalTTL, NotifyOnly: c.NotifyOnly, Tools: c.Uses,
		Retry: events.Retry{ModelAttempts: c.ModelAttempts},
	}
	if c.Cache != "" {
		out.Cache = &content.CacheRequest{Mode: c.Cache}
	}
	for _, r := range c.Rules {
		out.Rules = append(out.Rules, events.Rule{Tool: r.Tool, Action: r.Action})
	}
	for _, r := range c.Routes {
		out.Routes = append(out.Routes, events.RouteRule{Tool: r.Tool, Route: r.Route, DetachAfter: r.Detach})
	}
	if c.Output != nil {
		out.Output = &events.Output{Schema: json.RawMessage(c.Output.Schema), Repairs: c.Output.Repairs}
	}
	return out
}

func (c config) transcript() []content.Item {
	var out []content.Item
	for _, p := range c.Transcript {
		out = append(out, content.NewItem(p.Kind, content.TextPart(p.Text)))
	}
	return out
}

// model returns the model of the scenario.
func (sc *scenario) model(name string, script []byte) (model.Model, error) {
	m, err := scripted.Parse(name, script)
	if err != nil || sc.Stutters == "" && !sc.Lines {
		return m, err
	}
	return provider{m, sc}, nil
}

// provider is a model with what a scenario adds to its script.
type provider struct {
	model.Model
	sc *scenario
}

func (m provider) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	out, err := m.Model.Call(ctx, r, emit)
	switch {
	case err != nil && m.sc.Stutters != "":
		emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
		emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: m.sc.Stutters})
	case err == nil && m.sc.Lines && content.CountCalls(out.Items) == 0:
		lines := strings.FieldsFunc(out.Items[0].Text(), func(r rune) bool { return r == '\n' })
		out.Items = nil
		for _, line := range lines {
			out.Items = append(out.Items, content.NewItem(content.Assistant, content.TextPart(line)))
		}
	}
	return out, err
}

// definition returns the agent of the session.
func (sc *scenario) definition(t testing.TB) *agentfile.Definition {
	t.Helper()
	d, err := agentfile.Parse(sc.name+".yaml", []byte(sc.Agent), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ref returns that agent as a client sends it.
func (sc *scenario) ref(t testing.TB) *events.AgentRef {
	t.Helper()
	ref, err := sc.definition(t).Ref()
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func load(t *testing.T) []*scenario {
	t.Helper()
	files, err := filepath.Glob("scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("scenarios: %v, %v", files, err)
	}
	out := make([]*scenario, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sc := &scenario{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
		if err := yaml.UnmarshalWithOptions(data, sc, yaml.Strict()); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[i] = sc
	}
	return out
}
