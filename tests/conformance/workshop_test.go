package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/tool"
)

// workshop is the tools and extensions of one run.
type workshop struct {
	specs map[string]toolSpec
	tools *tool.Registry
	gates *tool.Registry // verifiers; nil without a root
	root  string         // where gates and hooks run, and tools create files
	offer func()         // advertises new tools

	mu    sync.Mutex // guards the fields below
	began map[string]int
	asked map[string]int // hooks
}

func newWorkshop(t *testing.T, sc *scenario) *workshop {
	t.Helper()
	w := &workshop{
		specs: make(map[string]toolSpec), began: make(map[string]int), asked: make(map[string]int), offer: func() {},
	}
	if sc.Agent != "" || slices.ContainsFunc(sc.Steps, func(s step) bool { return s.Task != nil }) {
		w.root = t.TempDir()
		w.gates = gates(t, w.root)
	}
	reg, err := tool.NewRegistry("tools")
	if err != nil {
		t.Fatal(err)
	}
	w.tools = reg
	for _, s := range sc.Tools {
		w.specs[s.Name] = s
		if !s.Hidden {
			reg.Add(bench{s, w})
		}
	}
	return w
}

// reveal offers a hidden tool.
func (w *workshop) reveal(name string) {
	w.tools.Add(bench{w.specs[name], w})
	w.offer()
}

// sources returns what a worker runs: the tools and, for tasks, the verifiers.
func (w *workshop) sources() []tool.Source {
	if w.gates == nil {
		return []tool.Source{w.tools}
	}
	return []tool.Source{w.tools, w.gates}
}

// gates returns the verifiers of tasks.
func gates(t testing.TB, root string) *tool.Registry {
	t.Helper()
	gate, err := engine.NewVerifierTool(root, extension.CommandVerifier{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tool.NewRegistry("gates", gate)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// count adds one.
func (w *workshop) count(of map[string]int, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of[name]++
}

// ran returns how often each tool started.
func (w *workshop) ran() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.began)
}

// heard returns how often each hook was asked.
func (w *workshop) heard() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.asked)
}

// bench is a scripted tool.
type bench struct {
	toolSpec
	shop *workshop
}

// Spec returns the spec of the scenario.
func (b bench) Spec() tool.Spec {
	s := tool.Spec{
		Name: b.Name, Description: "a scripted tool", Effects: b.Effects, Writes: b.Creates != "",
		Route: b.Route, DetachAfter: b.Detach, Exclusive: b.Exclusive, Timeout: b.Timeout,
	}
	if b.Required != "" {
		s.InputSchema = fmt.Appendf(nil, `{"type":"object","required":[%q]}`, b.Required)
	}
	return s
}

// Propose returns one request of the scenario's kind.
func (b bench) Propose(_ context.Context, c tool.Call) ([]tool.Request, error) {
	r := tool.RequestFor(b.Spec(), c)
	if b.Proposes != "" {
		r.Kind, r.Target = b.Proposes, c.Input
	}
	return []tool.Request{r}, nil
}

// Call waits and answers.
func (b bench) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	if v := (tool.Verdict{Ruling: tool.Ask, RequestKind: b.LateAsk, Scope: b.Name, Reason: content.SensitivePath}); b.LateAsk != "" &&
		!slices.Contains(c.Approved, v.Key()) {
		select {
		case <-time.After(b.AskIn):
			return tool.Output{}, tool.NeedsApproval(v)
		case <-ctx.Done():
			return tool.Output{}, context.Cause(ctx)
		}
	}
	b.shop.count(b.shop.began, b.Name)
	if b.Stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-time.After(b.Takes):
	case <-ctx.Done():
		return tool.Output{}, context.Cause(ctx)
	}
	return b.answer(c)
}

func (b bench) answer(c tool.Call) (tool.Output, error) {
	switch {
	case b.Breaks != "":
		panic(b.Breaks)
	case b.Fails != "":
		return tool.Output{}, errors.New(b.Fails)
	case b.Retry != "":
		return tool.Output{}, tool.Retry(b.Retry)
	case b.Forbids != "":
		code, message, _ := strings.Cut(b.Forbids, ": ")
		return tool.Output{}, tool.Forbidden(code, message)
	case b.Auth != "":
		return tool.Output{}, tool.AuthRequired(tool.AuthRequest{ID: "a", Provider: b.Auth, Operation: tool.AuthOperation{Kind: "tool_call", Name: b.Name}})
	case b.Creates != "":
		if err := os.WriteFile(filepath.Join(b.shop.root, b.Creates), nil, 0o600); err != nil {
			return tool.Output{}, err
		}
		out := tool.Text("created")
		out.ChangedPaths = []string{b.Creates}
		return out, nil
	case b.Text != "":
		return tool.Text(b.Text), nil
	}
	return tool.Text(string(c.Input)), nil
}

// Evaluate asks and denies as the tools' specs say.
func (w *workshop) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	s := w.specs[r.Call.Name]
	if code, message, denied := strings.Cut(s.Deny, ": "); denied {
		return tool.Verdict{Ruling: tool.Deny, Code: code, Message: message}, nil
	}
	if len(s.Ask) == 0 {
		return tool.Verdict{Ruling: tool.Allow}, nil
	}
	var gates []tool.Verdict
	for _, kind := range s.Ask {
		gates = append(gates, tool.Verdict{Ruling: tool.Ask, RequestKind: kind, Reason: content.SensitiveCommand, TTL: s.TTL})
	}
	v := gates[0]
	v.Also = gates[1:]
	return v, nil
}
