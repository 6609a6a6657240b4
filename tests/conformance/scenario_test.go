package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// scenario is one file.
type scenario struct {
	name string

	About  string     `yaml:"about"`
	Covers []string   `yaml:"covers"` // rules of README.md
	Script string     `yaml:"script"` // of the model
	Tools  []toolSpec `yaml:"tools"`
	Config config     `yaml:"config"`
	Steps  []step     `yaml:"steps"`

	Transcript []string       `yaml:"transcript"` // what must remain
	Kinds      []events.Kind  `yaml:"kinds"`      // must occur in this order, others between them
	Never      []events.Kind  `yaml:"never"`      // must not occur
	Ran        map[string]int `yaml:"ran"`        // how often each tool must have begun, where no node died

	NotIn map[string]string `yaml:"not_in"` // shapes in which it does not run, with the reason
}

// toolSpec is a tool and what the policy says of it.
type toolSpec struct {
	Name      string          `yaml:"name"`
	Effects   content.Effects `yaml:"effects"`
	Route     content.Route   `yaml:"route"`
	Detach    time.Duration   `yaml:"detach_after"`
	Exclusive bool            `yaml:"exclusive"`
	Takes     time.Duration   `yaml:"takes"` // until it answers
	Text      string          `yaml:"text"`  // its answer; empty: its input
	Fails     string          `yaml:"fails"` // with this
	Ask       []string        `yaml:"ask"`   // gates
	Deny      string          `yaml:"deny"`  // code: message
	Required  string          `yaml:"required"`
}

// config is the part of a session's configuration that scenarios change.
type config struct {
	MaxParallel int           `yaml:"max_parallel"`
	FailRun     bool          `yaml:"fail_run"`
	Limits      limits        `yaml:"limits"`
	ApprovalTTL time.Duration `yaml:"approval_ttl"`
	Attempts    int           `yaml:"model_attempts"`
	System      string        `yaml:"system"`
}

type limits struct {
	Rounds    int64 `yaml:"rounds"`
	Requests  int64 `yaml:"requests"`
	ToolCalls int64 `yaml:"tool_calls"`
	Input     int64 `yaml:"input_tokens"`
	Output    int64 `yaml:"output_tokens"`
	Total     int64 `yaml:"tokens"`
}

func (l limits) of() events.Limits {
	return events.Limits{
		MaxRounds: l.Rounds, Requests: l.Requests, ToolCalls: l.ToolCalls,
		InputTokens: l.Input, OutputTokens: l.Output, TotalTokens: l.Total,
	}
}

// step is one thing that the host does. Exactly one field is set, but for those
// of Next.
type step struct {
	Submit string        `yaml:"submit"`
	OnBusy events.OnBusy `yaml:"on_busy"` // of Submit
	Wait   time.Duration `yaml:"wait"`    // for time to pass

	// Next is what the next step must be: awaiting_input; finished REASON, or
	// finished REASON: TEXT; approval TOOL; after_tool_result; error TEXT.
	Next string      `yaml:"next"`
	When events.Kind `yaml:"when"` // of Next: once this is in the journal, do …
	Do   *act        `yaml:"do"`

	Act *act `yaml:"act"`
}

// act is what anybody may do at any time.
type act struct {
	Approve string        `yaml:"approve"` // a call's tool
	Deny    string        `yaml:"deny"`    // a call's tool
	Reason  string        `yaml:"reason"`  // of Deny
	Input   string        `yaml:"input"`   // of Approve: the patch
	Cancel  string        `yaml:"cancel"`  // the turn, for this reason
	Submit  string        `yaml:"submit"`
	OnBusy  events.OnBusy `yaml:"on_busy"` // of Submit
	Refused string        `yaml:"refused"` // the code with which it must be turned down
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

// workshop is the tools of one run.
type workshop struct {
	specs map[string]toolSpec

	mu    sync.Mutex // guards began
	began map[string]int
}

func newWorkshop(sc *scenario) *workshop {
	w := &workshop{specs: make(map[string]toolSpec), began: make(map[string]int)}
	for _, s := range sc.Tools {
		w.specs[s.Name] = s
	}
	return w
}

func (w *workshop) source(t *testing.T) tool.Source {
	t.Helper()
	reg, err := tool.NewRegistry("tools")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range w.specs {
		reg.Add(bench{s, w})
	}
	return reg
}

// ran says how often each tool began.
func (w *workshop) ran() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string]int)
	for name, n := range w.began {
		out[name] = n
	}
	return out
}

// bench is a scripted tool.
type bench struct {
	toolSpec
	shop *workshop
}

// Spec is as the scenario says.
func (b bench) Spec() tool.Spec {
	s := tool.Spec{
		Name: b.Name, Description: "a scripted tool", Effects: b.Effects,
		Route: b.Route, DetachAfter: b.Detach, Exclusive: b.Exclusive,
	}
	if b.Required != "" {
		s.InputSchema = fmt.Appendf(nil, `{"type":"object","required":[%q]}`, b.Required)
	}
	return s
}

// Call takes its time and answers.
func (b bench) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	b.shop.mu.Lock()
	b.shop.began[b.Name]++
	b.shop.mu.Unlock()
	select {
	case <-time.After(b.Takes):
	case <-ctx.Done():
		return tool.Output{}, context.Cause(ctx)
	}
	switch {
	case b.Fails != "":
		return tool.Output{}, errors.New(b.Fails)
	case b.Text != "":
		return tool.Text(b.Text), nil
	}
	return tool.Text(string(c.Input)), nil
}

// Propose makes a request for each gate.
func (b bench) Propose(_ context.Context, c tool.Call) ([]tool.Request, error) {
	if len(b.Ask) == 0 {
		return []tool.Request{tool.RequestFor(b.Spec(), c)}, nil
	}
	var out []tool.Request
	for _, kind := range b.Ask {
		r := tool.RequestFor(b.Spec(), c)
		r.Kind = kind
		out = append(out, r)
	}
	return out, nil
}

// Evaluate is the policy: it asks and denies as the tools' specs say.
func (w *workshop) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	s := w.specs[r.Call.Name]
	if code, message, denied := strings.Cut(s.Deny, ": "); denied {
		return tool.Verdict{Ruling: tool.Deny, Code: code, Message: message}, nil
	}
	if len(s.Ask) == 0 {
		return tool.Verdict{Ruling: tool.Allow}, nil
	}
	kind := r.Kind
	if kind == "" {
		kind = s.Ask[0]
	}
	return tool.Verdict{Ruling: tool.Ask, RequestKind: kind, Reason: content.SensitiveCommand}, nil
}

// lines renders a transcript.
func lines(items []content.Item) []string {
	var out []string
	for _, it := range items {
		var b strings.Builder
		b.WriteString(string(it.Kind))
		b.WriteString(":")
		if text := it.Text(); text != "" {
			b.WriteString(" " + text)
		}
		for _, c := range it.Calls() {
			fmt.Fprintf(&b, " [%s %s]", c.Name, compact(c.Input))
		}
		for _, r := range it.Results() {
			fmt.Fprintf(&b, " %s %s: %s", r.Name, r.Status, r.Text())
		}
		out = append(out, b.String())
	}
	return out
}

func compact(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}
