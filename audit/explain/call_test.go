package explain_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

func read(t *testing.T, name string, records []journal.Record) (explain.Call, error) {
	t.Helper()
	r := explain.NewCallReader(name)
	for _, rec := range records {
		if err := r.Add(rec); err != nil {
			t.Fatal(err)
		}
	}
	return r.Call()
}

// approved is a session whose call was approved with other arguments, ran twice, and was compacted away.
func approved(t *testing.T) *story {
	t.Helper()
	hooks := []events.Registration{{Name: "guard", Points: []string{"pre_tool_execution"}}}
	mutators := []events.Registration{{Name: "compact", Points: []string{"before_model"}}}
	s := begin(t, events.Config{Model: "demo", Hooks: hooks, Mutators: mutators},
		events.Rule{Tool: "sh", Action: events.RuleAsk}, events.Rule{Tool: "*", Action: events.RuleAllow})
	s.say("bob", "Clean up")
	noCompaction := func() {
		s.do("", commands.ReportMutation{Turn: s.state.Turn.ID, Round: s.state.Turn.Round, Finished: events.MutationFinished{Mutator: "compact", Point: "before_model"}})
	}
	noCompaction()
	s.reply("I will.", call("c1", "sh", `{"cmd":"rm -r ."}`), call("c2", "read", `{}`))
	s.preflight(question(`sh {"cmd":"rm -r ."}`))
	s.patched("eve", "c1", `{"cmd":"rm a"}`)
	s.do("", commands.ReportHooks{Turn: "turn-1", Round: 1, Answer: commands.HookAnswer{Point: "pre_tool_execution", Call: "c1", Action: "continue"}})
	s.result("t1-r1-c1", 1, "removed")
	s.do("", commands.ReportHooks{Turn: "turn-1", Round: 1, Answer: commands.HookAnswer{Point: "pre_tool_execution", Call: "c2", Action: "continue"}})
	s.do("", commands.ReportAttemptLost{Place: "t1-r1-c2", Attempt: 1, Queue: "default", Reason: "worker gone"})
	s.result("t1-r1-c2", 2, "text")
	noCompaction()
	s.reply("Done.")
	s.say("bob", "And now?")
	s.do("", commands.ReportMutation{Turn: "turn-2", Round: 1, Finished: events.MutationFinished{
		Mutator: "compact", Point: "before_model", Dirty: true, Replacement: []content.Item{content.UserText("Things were done.")},
	}})
	s.reply("Nothing.")
	return s
}

func TestACallIsExplainedFromInputToSight(t *testing.T) {
	t.Parallel()
	s := approved(t)
	c, err := read(t, "c1", s.records)
	if err != nil {
		t.Fatal(err)
	}
	q, a, r := c.Questions[0], c.Attempts[0], c.Results[0]
	for what, ok := range map[string]bool{
		"opener":    c.Asked.Opener.User == "ada",
		"input":     len(c.Asked.Inputs) == 1 && c.Asked.Inputs[0].From.User == "bob" && c.Asked.Inputs[0].Text == "Clean up",
		"model":     c.Asked.Model == "demo-1" && c.Asked.Reply.Seq > 0,
		"arguments": string(c.Written) == `{"cmd":"rm -r ."}` && string(c.Ran) == `{"cmd":"rm a"}`,
		"decision":  q.Decision.Decider.User == "eve" && q.Decision.Outcome == events.Approved && q.Decision.Reason == "only that",
		"policy":    c.Policy.Name == "v3" && c.Policy.Digest != "",
		"hook":      len(c.Hooks) == 1 && c.Hooks[0].Action == "continue",
		"attempt":   a.N == 1 && a.Queue == "default" && a.Writer.Node == "n1" && !a.Unrestricted,
		"grounds": len(a.Because) == 3 && a.Because[0] == events.GroundOf(events.ByPolicy, events.Rule{Tool: "sh", Action: events.RuleAsk}) &&
			a.Because[1] == events.Ground{By: events.ByApproval, Name: string(q.ID)} && a.Because[2].By == events.ByHook,
		"result": r.Status == content.StatusOK && r.Text == "removed" && r.Attempt == 1 && r.Took > 0,
		"seen":   len(c.Seen) == 2 && c.Seen[0].Form == explain.FormFull && c.Seen[0].Round == 2 && c.Seen[1].Form == explain.FormGone && c.Seen[1].Through == "compact",
	} {
		if !ok {
			t.Errorf("%s: %+v", what, c)
		}
	}
	if c, err = read(t, "t1-r1-c2", s.records); err != nil || len(c.Attempts) != 2 || c.Attempts[0].Lost == nil || c.Attempts[1].Lost != nil {
		t.Errorf("the lost attempt: %v, %+v", err, c.Attempts)
	}
	if last := c.Attempts[1].Because; last[len(last)-1] != (events.Ground{By: events.ByEffects, Name: "read_only"}) {
		t.Errorf("the second attempt starts because of %v", last)
	}
}

func TestAnExplanationNamesTheKeysOfPeopleAndWorkers(t *testing.T) {
	t.Parallel()
	s := approved(t)
	s.append(events.Entry{
		Session: s.state.Session, Epoch: s.state.Epoch, Cause: "cmd-late", At: s.records[len(s.records)-1].Entry.At.Add(time.Second),
		Events: []events.Event{events.CancelRequested{Scope: commands.ScopeCall, Target: "c1", User: "bob"}},
	})
	by := func(key string) *content.Signature { return &content.Signature{Key: key} }
	for n, r := range s.records {
		for i, ev := range r.Entry.Events {
			switch ev := any(ev).(type) {
			case events.RunStarted, events.InputQueued, events.CancelRequested:
				s.records[n].Entry.Events = slices.Concat([]events.Event{events.CommandSigned{Signature: *by("bob-key")}}, r.Entry.Events)
			case events.ApprovalResolved:
				s.records[n].Entry.Events = slices.Concat([]events.Event{events.CommandSigned{Signature: *by("eve-key")}}, r.Entry.Events)
			case events.ToolResultReceived:
				ev.Signature = by("gpu-key")
				r.Entry.Events[i] = ev
			}
		}
	}
	c, err := read(t, "c1", s.records)
	if err != nil {
		t.Fatal(err)
	}
	got := []explain.Key{c.Asked.Opener.Key, c.Orders[0].From.Key, c.Asked.Inputs[0].From.Key, c.Questions[0].Decision.Decider.Key, c.Attempts[0].Worker, c.Results[0].Worker}
	if want := []explain.Key{"bob-key", "bob-key", "bob-key", "eve-key", "gpu-key", "gpu-key"}; !slices.Equal(got, want) {
		t.Errorf("keys = %q, want %q", got, want)
	}
	reader := explain.NewCallReader("c1")
	reader.Named(func(id string) string { return map[string]string{"eve-key": "eve", "gpu-key": "gpu"}[id] })
	for _, r := range s.records {
		if err := reader.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if c, err = reader.Call(); err != nil {
		t.Fatal(err)
	}
	if got := c.Attempts[0].Runner; got != "gpu" {
		t.Errorf("the owner of the worker's key is %q, want gpu", got)
	}
	for who, want := range map[explain.Person]string{c.Questions[0].Decision.Decider: "eve", c.Asked.Inputs[0].From: content.Sender(c.Asked.Inputs[0].From.User, c.Asked.Inputs[0].From.By)} {
		if who.String() != want {
			t.Errorf("%+v is shown as %q, want %q", who, who, want)
		}
	}
}

// A provider that compacts the context shows its model nothing of what came before.
func TestAProvidersCompactionHidesAResult(t *testing.T) {
	t.Parallel()
	s := begin(t, events.Config{}, events.Rule{Tool: "*", Action: events.RuleAllow})
	s.say("", "go")
	s.reply("", call("c1", "read", `{}`))
	s.preflight()
	s.result("t1-r1-c1", 1, "text")
	turn := s.state.Turn
	s.do("", commands.ReportReply{
		ModelCall: commands.ModelCall{Turn: turn.ID, Round: turn.Round, Attempt: turn.Attempt}, FinishReason: content.Compaction,
		Items: []content.Item{content.NewItem(content.Assistant, content.TextPart("In short: text."))},
	})
	c, err := read(t, "c1", s.records)
	if err != nil || len(c.Seen) != 2 || c.Seen[0].Form != explain.FormFull || c.Seen[1].Form != explain.FormGone {
		t.Errorf("%v, %+v", err, c.Seen)
	}
}

func TestADeniedCallIsExplained(t *testing.T) {
	t.Parallel()
	s := begin(t, events.Config{}, events.Rule{Tool: "*", Action: events.RuleAsk})
	s.say("", "go")
	s.reply("", call("c1", "sh", `{}`))
	s.preflight(question("sh {}"))
	s.do("eve", commands.ResolveApproval{Call: "c1", Reason: "not today"})
	c, err := read(t, "c1", s.records)
	if err != nil || len(c.Attempts) > 0 || c.Status != content.StatusDenied || c.Results[0].Attempt != 0 || c.Questions[0].Decision.Outcome != events.Denied {
		t.Errorf("%v, %+v", err, c)
	}
}

// A journal of an earlier release does not record why a call could start.
func TestGroundsOfEarlierJournalsAreNotRecorded(t *testing.T) {
	t.Parallel()
	s := approved(t)
	for i, rec := range s.records {
		for j, ev := range rec.Entry.Events {
			if d, ok := ev.(events.ToolDispatched); ok {
				d.Because = nil
				s.records[i].Entry.Events[j] = d
			}
		}
	}
	c, err := read(t, "c1", s.records)
	if err != nil || c.Attempts[0].Because != nil || c.Attempts[0].Unrestricted {
		t.Errorf("%v, %+v", err, c.Attempts)
	}
}

func TestEveryNameOfACallMeansIt(t *testing.T) {
	t.Parallel()
	s := begin(t, events.Config{}, events.Rule{Tool: "*", Action: events.RuleAllow})
	s.say("", "go")
	slash, again := call("toolu/1", "read", `{}`), call("t1-r1-c1", "read", `{}`)
	s.reply("", slash, call("same", "read", `{}`), slash)
	s.preflight()
	for i := range 3 {
		s.result(content.PlaceOf(1, 1, i+1), 1, "x")
	}
	s.reply("", call("same", "read", `{}`), again)
	for name, want := range map[string]string{
		"t1-r1-c1": "t1-r1-c1", "t1-r1-c2-g1": "t1-r1-c2", "t1-r1-c2": "t1-r1-c2", "t1-r2-c1": "t1-r2-c1",
		"same": "t1-r1-c2", // not the second one, whose id is its place
	} {
		if c, err := read(t, name, s.records); err != nil || string(c.Place) != want {
			t.Errorf("%s means %s, %v; want %s", name, c.Place, err, want)
		}
	}
	if _, err := read(t, "toolu/1", s.records); !errors.Is(err, explain.ErrSeveral) || !strings.Contains(err.Error(), "t1-r1-c1 (t1-r1-c1, read of turn-1) and t1-r1-c3") {
		t.Errorf("an id that the provider gave twice: %v", err)
	}
	for _, name := range []string{"", "c9", "t1-r1-c9", "t1-r1-c1-gx"} {
		if _, err := read(t, name, s.records); !errors.Is(err, explain.ErrNoCall) {
			t.Errorf("%q: %v, want ErrNoCall", name, err)
		}
	}
}
