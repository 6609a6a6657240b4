package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

func catalog(t *testing.T, names ...string) *engine.Catalog {
	t.Helper()
	reg, err := tool.NewRegistry("r")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		f, err := tool.Func(n, "A tool.", func(_ context.Context, in struct {
			N int `json:"n"`
		},
		) (int, error) {
			return in.N, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		reg.Add(f)
	}
	c, err := engine.NewCatalog(t.Context(), []tool.Source{reg}, tool.FirstWins, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rules answers requests by tool name.
type rules map[string]tool.Verdict

func (r rules) Evaluate(_ context.Context, q tool.Request) (tool.Verdict, error) {
	if v, ok := r[q.Call.Name]; ok {
		return v, nil
	}
	return tool.Verdict{}, errors.New("no rule")
}

func TestPreflightLooksUpThenValidatesThenAsks(t *testing.T) {
	t.Parallel()
	r := engine.NewRunner(engine.Config{Permissions: rules{
		"free":   {Ruling: tool.Allow},
		"asks":   {Ruling: tool.Ask, Reason: content.SensitivePath},
		"denied": {Ruling: tool.Deny, Code: "path_not_allowed", Message: "outside"},
	}})
	cat := catalog(t, "free", "asks", "denied", "ruleless")
	for name, tc := range map[string]struct {
		tool, input, message string
		status               content.Status
		questions            int
	}{
		"unknown":  {tool: "nope", status: content.StatusError, message: "Tool not found: nope"},
		"denied":   {tool: "denied", status: content.StatusDenied, message: "Permission denied: path_not_allowed: outside"},
		"ruleless": {tool: "ruleless", status: content.StatusDenied, message: "Permission denied: permission_denied: no rule"},
		"asks":     {tool: "asks", questions: 1},
		"free":     {tool: "free"},
	} {
		input := json.RawMessage(`{"n":1}`)
		k := check(t, r, cat, loop.Rules{}, content.ToolCall{ID: "c", Place: "t1-r1-c1", Name: tc.tool, Input: input})
		if len(k.Questions) != tc.questions {
			t.Errorf("%s: check = %+v", name, k)
		}
		switch {
		case tc.status == "" && k.Refusal != nil:
			t.Errorf("%s: refused: %+v", name, *k.Refusal)
		case tc.status != "" && (k.Refusal == nil || k.Refusal.Status != tc.status || k.Refusal.Message != tc.message):
			t.Errorf("%s: refusal = %+v, want %s %q", name, k.Refusal, tc.status, tc.message)
		}
	}
	bad := check(t, r, cat, loop.Rules{}, content.ToolCall{Name: "denied", Input: json.RawMessage(`{"n":"x"}`)})
	if got := bad.Refusal; got == nil || got.Code != tool.CodeInvalidArguments {
		t.Errorf("invalid arguments of a denied tool = %+v, want the refusal to name them", got)
	}
}

func TestAReplyContainsTheRoutingOfItsCalls(t *testing.T) {
	t.Parallel()
	r := engine.NewRunner(engine.Config{})
	m := modeltest.NewFake("m", func(context.Context, model.Request) (model.Reply, error) {
		return modeltest.Calls(content.ToolCall{Name: "free", Input: json.RawMessage(`{"n":1}`)}, content.ToolCall{Name: "nope"}), nil
	})
	e := loop.CallModel{ModelCall: commands.ModelCall{Turn: "turn-3", Round: 2, Attempt: 1}}
	got := r.CallModel(t.Context(), e, m, &engine.View{Session: "s", Catalog: catalog(t, "free")}, func(events.Event) {})
	rep, ok := got.(commands.ReportReply)
	if !ok {
		t.Fatalf("report = %T", got)
	}
	if len(rep.Routing) != 2 || !rep.Routing[0].Known || rep.Routing[0].Queue != "r" || rep.Routing[1].Known {
		t.Errorf("routing = %+v", rep.Routing)
	}
	if len(rep.Checks) != 2 || rep.Checks[1].Place != "t3-r2-c2" || rep.Checks[1].Refusal == nil {
		t.Errorf("checks = %+v", rep.Checks)
	}
}

func TestAStoppedModelCallReportsItsPartialText(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	m := halfway{cancel: func() { cancel(engine.ErrStop) }}
	e := loop.CallModel{ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}}
	got := engine.NewRunner(engine.Config{}).CallModel(ctx, e, m, &engine.View{Catalog: catalog(t)}, func(events.Event) {})
	rep, ok := got.(commands.ReportModelStopped)
	if !ok || len(rep.Items) != 1 || rep.Items[0].Text() != "half an ans" {
		t.Errorf("report = %+v", got)
	}
}

// halfway is a model that is stopped in the middle of its answer.
type halfway struct{ cancel func() }

func (halfway) Name() string                     { return "halfway" }
func (halfway) Capabilities() model.Capabilities { return model.Capabilities{} }

func (h halfway) Call(ctx context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
	emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
	emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: "half an ans"})
	h.cancel()
	return model.Reply{}, context.Cause(ctx)
}

// hook answers at its points.
type hook struct {
	name   string
	action extension.Action
	err    error
}

func (h hook) Name() string              { return h.name }
func (h hook) Points() []extension.Point { return []extension.Point{extension.PreToolExecution} }
func (h hook) OnEvent(context.Context, extension.HookEvent) (extension.Action, error) {
	return h.action, h.err
}

func TestHooksStopAtTheFirstVeto(t *testing.T) {
	t.Parallel()
	skip := hook{name: "skip", action: extension.Action{Kind: extension.Skip, Reason: "no"}}
	broken := hook{name: "broken", err: errors.New("down")}
	for name, tc := range map[string]struct {
		hooks  []extension.Hook
		action string
		by     string
		open   int
	}{
		"none":        {nil, "continue", "", 0},
		"skip":        {[]extension.Hook{skip, broken}, "skip", "skip", 0},
		"fail closed": {[]extension.Hook{broken, skip}, "terminate", "broken", 0},
		"fail open":   {[]extension.Hook{extension.FailOpen(broken), skip}, "skip", "skip", 1},
	} {
		a := engine.NewRunner(engine.Config{Hooks: tc.hooks}).Hooks(t.Context(), extension.HookEvent{Point: extension.PreToolExecution})
		if a.Action != tc.action || a.Hook != tc.by || len(a.FailedOpen) != tc.open {
			t.Errorf("%s: answer = %+v", name, a)
		}
	}
}

func TestNotesOfHooksThatStopNothingAreKept(t *testing.T) {
	t.Parallel()
	wary := hook{name: "wary", action: extension.Action{Reason: "nearly"}, err: errors.New("half of the service is down")}
	quiet, fine := hook{name: "quiet"}, hook{name: "fine", action: extension.Action{Reason: "looks fine"}}
	a := engine.NewRunner(engine.Config{Hooks: []extension.Hook{extension.FailOpen(wary), quiet, fine}}).
		Hooks(t.Context(), extension.HookEvent{Point: extension.PreToolExecution})
	want := []events.HookNote{{Hook: "wary", Text: "nearly"}, {Hook: "wary", Text: "half of the service is down"}, {Hook: "fine", Text: "looks fine"}}
	if !slices.Equal(a.Notes, want) || !slices.Equal(a.FailedOpen, []string{"wary"}) || a.Action != "continue" || a.Hook != "" {
		t.Errorf("answer = %+v", a)
	}
}

// manager records the task instead of running it.
type manager struct {
	task.Manager
	got *task.Task
}

func (m manager) Run(_ context.Context, t task.Task, _ func(context.Context) tool.Result) tool.Result {
	*m.got = t
	return tool.Result{}
}

func TestAManagerGetsTheApprovals(t *testing.T) {
	t.Parallel()
	var got task.Task
	r := engine.NewRunner(engine.Config{Manager: manager{task.Simple(), &got}})
	approved := []content.QuestionKey{{Kind: "network", Scope: "example.org"}}
	c := loop.Call{ToolCall: content.ToolCall{ID: "c", Place: "t1-r1-c1", Name: "a"}, Attempt: 1, Approved: approved}
	r.RunTool(t.Context(), c, &engine.View{Session: "s", Catalog: catalog(t)}, nil, nil)
	if !slices.Equal(got.Approved, approved) || got.IdempotencyKey != "s/t1-r1-c1" {
		t.Errorf("task = %+v", got)
	}
}
