package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// replies answers the n-th model call of a session with the n-th reply.
func replies(rs ...model.Reply) model.Model {
	return modeltest.NewFake("fake", func(_ context.Context, r model.Request) (model.Reply, error) {
		n := 0
		for _, it := range r.Transcript {
			if it.Kind == content.Assistant {
				n++
			}
		}
		return rs[min(n, len(rs)-1)], nil
	})
}

func call(id, name, input string) content.ToolCall {
	return content.ToolCall{ID: content.CallID(id), Name: name, Input: json.RawMessage(input)}
}

type echoInput struct {
	Text string `json:"text"`
}

func echo(t *testing.T) tool.Source {
	t.Helper()
	f, err := tool.Func("echo", "Says it again.", func(_ context.Context, in echoInput) (string, error) { return in.Text, nil }, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	return registry(t, f)
}

func registry(t *testing.T, tools ...tool.Tool) *tool.Registry {
	t.Helper()
	r, err := tool.NewRegistry("test", tools...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func start(t *testing.T, c agent.Config) *session.Session {
	t.Helper()
	return startAs(t, c, agent.SessionConfig{ID: "s"})
}

// startAs starts a session that asks about nothing, unless the configuration says otherwise.
func startAs(t *testing.T, c agent.Config, s agent.SessionConfig) *session.Session {
	t.Helper()
	c.Policy = cmp.Or(c.Policy, permission.AllowAll())
	a, err := agent.New(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

// step calls Next and wants a step of type S.
func step[S session.Step](t *testing.T, d *session.Session) S {
	t.Helper()
	got, err := d.Next(t.Context())
	if err != nil {
		t.Fatalf("Next = %v", err)
	}
	s, ok := got.(S)
	if !ok {
		var want S
		t.Fatalf("Next = %T, want %T", got, want)
	}
	return s
}

func reasonOf(err error) string {
	e, ok := errors.AsType[*session.InvalidStateError](err)
	if !ok || !errors.Is(err, session.ErrInvalidState) {
		return "not an InvalidStateError: " + errText(err)
	}
	return e.Reason
}

func errText(err error) string {
	if err == nil {
		return "nil"
	}
	return err.Error()
}

func TestNextReturnsEveryKindOfStep(t *testing.T) {
	t.Parallel()
	d := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), modeltest.Text("done")),
		Tools: []tool.Source{echo(t)}, Permissions: asking{},
	})
	awaiting := step[*session.AwaitingInput](t, d)
	if awaiting.Reason != "driver is waiting for input" || awaiting.IsBlocking() {
		t.Errorf("awaiting = %+v", awaiting)
	}
	again := step[*session.AwaitingInput](t, d)
	if err := awaiting.Submit(t.Context(), content.UserText("x")); reasonOf(err) != "handle_stale" {
		t.Errorf("Submit on a stale handle = %v", err)
	}
	if err := again.Submit(t.Context(), content.UserText("say hi")); err != nil {
		t.Fatal(err)
	}
	if err := again.Submit(t.Context(), content.UserText("x")); reasonOf(err) != "handle_used" {
		t.Errorf("second Submit = %v", err)
	}
	ask := step[*session.ApprovalRequest](t, d)
	if !ask.IsBlocking() || ask.Tool != "echo" || ask.CallID != "c1" || ask.Digest == "" {
		t.Errorf("approval = %+v", ask.Approval)
	}
	if _, err := d.Next(t.Context()); reasonOf(err) != "approval_pending" {
		t.Errorf("Next with an open approval = %v", err)
	}
	if err := ask.Approve(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := step[*session.AfterToolResult](t, d)
	if len(after.Calls) != 1 || len(after.Results) != 1 || after.Results[0].Text() != "hi" || after.TranscriptLen != 3 {
		t.Errorf("after tools = %+v", after)
	}
	if err := after.Submit(t.Context(), content.UserText("be brief")); err != nil {
		t.Fatal(err)
	}
	fin := step[*session.Finished](t, d)
	if fin.Result.Text() != "done" || fin.Result.Rounds != 2 || len(fin.Result.Items) != 2 {
		t.Errorf("result = %+v", fin.Result)
	}
	step[*session.AwaitingInput](t, d)
	kinds := kindsOf(d.Snapshot().Transcript)
	if want := "user assistant tool user assistant"; kinds != want {
		t.Errorf("transcript = %s, want %s", kinds, want)
	}
}

func kindsOf(items []content.Item) string {
	var kinds []string
	for _, it := range items {
		kinds = append(kinds, string(it.Kind))
	}
	return strings.Join(kinds, " ")
}

// asking asks a person about every call.
type asking struct{}

func (asking) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "test.call", Reason: content.SensitiveCommand}, nil
}

func TestAPanickingModelIsAProviderError(t *testing.T) {
	t.Parallel()
	d := start(t, agent.Config{Model: modeltest.NewFake("broken", func(context.Context, model.Request) (model.Reply, error) { panic("boom") })})
	_, err := d.RunText(t.Context(), "go")
	if pe, ok := errors.AsType[*session.ProviderError](err); !ok || pe.Code != "panic" {
		t.Errorf("err = %v", err)
	}
}

func TestLeavingAStreamCancelsTheTurn(t *testing.T) {
	t.Parallel()
	m := modeltest.NewFake("slow", func(ctx context.Context, r model.Request) (model.Reply, error) {
		if len(r.Transcript) > 1 {
			<-ctx.Done()
			return model.Reply{}, context.Cause(ctx)
		}
		return modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), nil
	})
	d := start(t, agent.Config{Model: m, Tools: []tool.Source{echo(t)}})
	for ev, err := range d.Stream(t.Context(), content.UserText("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(session.ToolDone); ok {
			break
		}
	}
	last := d.Snapshot().LastTurn
	if last == nil || last.FinishReason != content.Cancelled || last.Metadata.Text(content.MetaInterruptReason) != "consumer_left" {
		t.Errorf("last turn = %+v", last)
	}
}

func TestRunCancelsTheTurnWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := modeltest.NewFake("slow", func(mctx context.Context, _ model.Request) (model.Reply, error) {
		cancel()
		<-mctx.Done()
		return model.Reply{}, context.Cause(mctx)
	})
	d := start(t, agent.Config{Model: m})
	_, err := d.RunText(ctx, "go")
	ce, ok := errors.AsType[*session.CancelledError](err)
	if !ok || ce.Reason != "context_done" || ce.Stage != "model" || !errors.Is(err, session.ErrCancelled) {
		t.Errorf("err = %v", err)
	}
}

func TestNextLeavesTheTurnOpenWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	m := modeltest.NewFake("slow", func(mctx context.Context, r model.Request) (model.Reply, error) {
		if calls++; calls == 1 {
			cancel()
			<-mctx.Done()
			return model.Reply{}, context.Cause(mctx)
		}
		if r.Attempt != 2 {
			return model.Reply{}, errors.New("the lost attempt was not counted")
		}
		return modeltest.Text("ok"), nil
	})
	d := start(t, agent.Config{Model: m, Input: []content.Item{content.UserText("go")}})
	if _, err := d.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Next = %v", err)
	}
	if fin := step[*session.Finished](t, d); fin.Result.Text() != "ok" {
		t.Errorf("result = %+v", fin.Result)
	}
}

func TestASessionContinuesFromItsJournalAfterACrash(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	running := make(chan struct{})
	ctx, crash := context.WithCancel(t.Context())
	slow, err := tool.Func("slow", "Takes its time.", func(tctx context.Context, _ struct{}) (string, error) {
		close(running)
		<-tctx.Done()
		return "", context.Cause(tctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := agent.Config{
		Model:   replies(modeltest.Calls(call("c1", "slow", `{}`)), modeltest.Text("I see")),
		Tools:   []tool.Source{registry(t, slow)},
		Journal: log, Input: []content.Item{content.UserText("go")},
	}
	first := start(t, c)
	go func() {
		<-running
		crash()
	}()
	if _, err := first.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Next = %v", err)
	}
	second := start(t, c)
	if _, err := first.Next(t.Context()); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("the fenced driver's Next = %v", err)
	}
	after := step[*session.AfterToolResult](t, second)
	if got := after.Results[0]; got.Status != content.StatusUnknown {
		t.Errorf("result of the lost call = %+v", got)
	}
	if fin := step[*session.Finished](t, second); fin.Result.Text() != "I see" {
		t.Errorf("result = %+v", fin.Result)
	}
}

// recorder notes what observers see.
type recorder struct {
	events []string
	items  []string
}

func (r *recorder) HandleEvent(o extension.Observed) {
	if o.Seq > 0 {
		r.events = append(r.events, string(events.KindOf(o.Event)))
	}
}

func (r *recorder) OnItemAppended(_ content.SessionID, it content.Item) {
	r.items = append(r.items, string(it.Kind))
}

func TestObserversSeeEverythingInOrder(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	d := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), modeltest.Text("done")),
		Tools: []tool.Source{echo(t)}, SystemPrompt: "preloaded",
		Observers:           []extension.Observer{rec, broken{}},
		TranscriptObservers: []extension.TranscriptObserver{rec},
	})
	if _, err := d.RunText(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	want := "driver_claimed run_started policy_applied input_queued input_accepted turn_started round_started model_call_started " +
		"reply_recorded usage_updated tool_call_requested tool_dispatched tool_result_received round_finished " +
		"round_started model_call_started reply_recorded usage_updated turn_finished"
	if got := strings.Join(rec.events, " "); got != want {
		t.Errorf("events:\n got %s\nwant %s", got, want)
	}
	if got := strings.Join(rec.items, " "); got != "user assistant tool assistant" {
		t.Errorf("items = %s", got)
	}
}

// broken panics on every event; that changes nothing.
type broken struct{}

func (broken) HandleEvent(extension.Observed) { panic("observer") }

func TestAConfigurationRequiresOnlyAModel(t *testing.T) {
	t.Parallel()
	shown := func(c agent.Config) (kinds []content.Kind) {
		c.Model = modeltest.NewFake("fake", func(_ context.Context, r model.Request) (model.Reply, error) {
			for _, it := range r.Transcript {
				kinds = append(kinds, it.Kind)
			}
			return modeltest.Text("ok"), nil
		})
		if res, err := start(t, c).RunText(t.Context(), "go"); err != nil || res.Response != "ok" {
			t.Errorf("RunText = %+v, %v", res, err)
		}
		return kinds
	}
	if got := shown(agent.Config{}); !slices.Equal(got, []content.Kind{content.User}) {
		t.Errorf("without anything else the model is shown %v", got)
	}
	before := []content.Item{content.NewItem(content.Context, content.TextPart("known"))}
	want := []content.Kind{content.System, content.Context, content.User}
	if got := shown(agent.Config{SystemPrompt: "Be brief.", Transcript: before}); !slices.Equal(got, want) {
		t.Errorf("with a system prompt the model is shown %v, want %v", got, want)
	}
}

func TestNewNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	_, err := agent.New(agent.Config{})
	if ce, ok := errors.AsType[*agent.ConfigError](err); !ok || ce.Field != "Model" {
		t.Errorf("New without a model = %v", err)
	}
	dangling := content.NewItem(content.Assistant, content.CallPart(call("c9", "x", "{}")))
	_, err = agent.New(agent.Config{Model: replies(modeltest.Text("")), Transcript: []content.Item{dangling}})
	if te, ok := errors.AsType[*agent.TranscriptError](err); !ok || te.Call != "c9" {
		t.Errorf("New with an unpaired transcript = %v", err)
	}
	a, err := agent.New(agent.Config{Model: replies(modeltest.Text(""))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Start(t.Context(), agent.SessionConfig{ID: "no/good"}); err == nil {
		t.Error("Start took a session id that is no token")
	}
	routes := []events.RouteRule{{Tool: "s*", Route: content.Background}}
	for problem, c := range map[string]agent.Config{
		"ApprovalTTL: negative":                {ApprovalTTL: -1},
		"Rules: an unknown action":             {Rules: []events.Rule{{Tool: "x", Action: "maybe"}}},
		"Routes: an unknown route":             {Routes: []events.RouteRule{{Tool: "*", Route: "sideways"}}, TaskManager: task.Async(task.AsyncConfig{})},
		"Routes: a manager without goroutines": {Routes: routes},
	} {
		c.Model = replies(modeltest.Text(""))
		field, _, _ := strings.Cut(problem, ":")
		_, err := agent.New(c)
		if e, ok := errors.AsType[*agent.ConfigError](err); !ok || e.Field != field {
			t.Errorf("%s: New = %v", problem, err)
		}
	}
}

func TestAReplyHasALimitOfCalls(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1000: "", 1001: "model call failed (other): the reply has 1001 tool calls, at most 1000"} {
		var calls []content.ToolCall
		for i := range n {
			calls = append(calls, call(fmt.Sprint("c", i), "missing", `{}`))
		}
		d := start(t, agent.Config{Model: replies(modeltest.Calls(calls...), modeltest.Text("ok"))})
		got := ""
		if _, err := d.RunText(t.Context(), "go"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d calls: %q, want %q", n, got, want)
		}
	}
}
