package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// sequence is a model whose replies depend on the transcript alone: first calls that
// a person has to approve, next to one that runs in the background, then another, and
// then text. It records the cache request of each call.
type sequence struct{ caches *[]string }

func (sequence) Name() string                     { return "sequence" }
func (sequence) Capabilities() model.Capabilities { return model.Capabilities{} }

func (m sequence) Call(_ context.Context, r model.Request, _ func(content.Delta)) (model.Reply, error) {
	mode := "none"
	if r.Cache != nil {
		mode = r.Cache.Mode
	}
	*m.caches = append(*m.caches, fmt.Sprintf("%s/%d: %s", r.Turn, r.Round, mode))
	said := 0
	for _, it := range r.Transcript {
		if it.Kind == content.Assistant {
			said++
		}
	}
	reply := modeltest.Text(fmt.Sprintf("said %d things", said))
	switch said {
	case 0:
		reply = modeltest.Calls(
			call("bg", "sleep", `{"for":"10m"}`), call("a", "echo", `{"text":"a"}`), call("b", "echo", `{"text":"b"}`))
	case 1:
		reply = modeltest.Calls(call("c", "echo", `{"text":"c"}`))
	}
	reply.Usage = content.Usage{InputTokens: 10, OutputTokens: 1}
	return reply, nil
}

// careful is a policy that asks about echo.
type careful struct{}

func (careful) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if r.Call.Name != "echo" {
		return tool.Verdict{}, nil
	}
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "echo", Summary: "echo"}, nil
}

// stopped is a session that is driven up to some step, by a host that dies there if
// the session has more steps.
type stopped struct {
	t      *testing.T
	cfg    agent.Config
	log    journal.Journal
	caches []string
}

func newStopped(t *testing.T, limits events.Limits) *stopped {
	t.Helper()
	s := &stopped{t: t, log: journal.NewMemory()}
	s.cfg = agent.Config{
		Model: sequence{&s.caches}, Tools: []tool.Source{echo(t), sleeper(t, tool.Idempotent())}, Permissions: careful{}, Journal: s.log, Limits: limits,
		TaskManager: task.Async(task.AsyncConfig{Route: func(c content.ToolCall, _ content.Routing) (content.Route, time.Duration) {
			if c.Name == "sleep" {
				return content.Background, 0
			}
			return content.Foreground, 0
		}}),
		Input: []content.Item{content.UserText("go")}, Policy: permission.AllowAll(),
	}
	return s
}

func (s *stopped) start() *session.Session {
	s.t.Helper()
	a, err := agent.New(s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := a.Start(s.t.Context(), agent.SessionConfig{ID: "s"})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// run drives the session to the end of its second turn, or of one that a limit ends. At
// the step with the number at, counted from 1, another host takes over; 0: at none. It
// returns the end of the session and the number of its steps.
func (s *stopped) run(at int) (session.Snapshot, int) {
	s.t.Helper()
	d, override := s.start(), true
	for n := 1; ; n++ {
		got, err := d.Next(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if _, ok := got.(*session.AfterToolResult); ok && override {
			override = false
			if err := d.SetNextTurnCache(s.t.Context(), model.CacheRequest{Mode: "required"}); err != nil {
				s.t.Fatal(err)
			}
		}
		if n == at {
			s.check(d.Snapshot())
			_ = d.Close(s.t.Context())
			d = s.start()
			if _, ended := got.(*session.Finished); !ended { // a turn's end is surfaced once, all else again
				if got, err = d.Next(s.t.Context()); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		switch got := got.(type) {
		case *session.ApprovalRequest:
			if err := got.Approve(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		case *session.AwaitingInput:
			<-d.Ready() // the call in the background
		case *session.Finished:
			if got.Result.TurnID == "turn-2" || got.Result.Limit != nil {
				defer func() { _ = d.Close(s.t.Context()) }()
				return d.Snapshot(), n
			}
		case *session.AfterToolResult:
		}
	}
}

// check checks that a snapshot holds the whole session: it equals a fold of its journal,
// also after a round trip, and what follows in the journal folds onto it.
func (s *stopped) check(snap session.Snapshot) {
	s.t.Helper()
	raw, err := json.Marshal(snap)
	if err != nil {
		s.t.Fatal(err)
	}
	var back session.Snapshot
	if err := json.Unmarshal(raw, &back); err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(snap, back); diff != "" {
		s.t.Errorf("after a round trip (-before +after):\n%s", diff)
	}
	state, err := snapshot.Decode(back.State)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(snap, session.SnapshotOf(state, snap.Hash)); diff != "" {
		s.t.Errorf("its state shows another session (-snapshot +state):\n%s", diff)
	}
	s.t.Cleanup(func() { // the journal is complete by then
		folded := loop.New("s")
		for rec, err := range s.log.Read(context.WithoutCancel(s.t.Context()), "s", 0) {
			if err != nil {
				s.t.Fatal(err)
			}
			folded.Fold(rec.Entry)
			if rec.Entry.Seq > snap.Seq {
				state.Fold(rec.Entry)
			}
			if rec.Entry.Seq == snap.Seq && !bytes.Equal(encoded(s.t, folded), back.State) {
				s.t.Errorf("at %d the journal folds to another state than the snapshot's", snap.Seq)
			}
		}
		if !bytes.Equal(encoded(s.t, folded), encoded(s.t, state)) {
			s.t.Error("what follows in the journal leads to another state from the snapshot")
		}
	})
}

func encoded(t *testing.T, s *loop.State) []byte {
	t.Helper()
	b, err := snapshot.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ending is what must not depend on which hosts drove the session.
func ending(s session.Snapshot) (out []string) {
	for _, it := range s.Transcript {
		out = append(out, fmt.Sprintf("%s %s %s", it.ID, it.Kind, it.Text()))
		for _, p := range it.Parts {
			if p.Result != nil {
				out = append(out, fmt.Sprintf("%s=%s %q", p.Result.CallID, p.Result.Status, p.Result.Text()))
			}
		}
	}
	return append(out, fmt.Sprintf("%d rounds, %d requests, %d tool calls, used %+v, last %s with %+v",
		s.Rounds, s.Requests, s.ToolCalls, s.Usage, s.LastTurn.FinishReason, s.LastTurn.Limit))
}

func TestASessionTakenOverAfterAnyEntryEndsTheSame(t *testing.T) {
	for name, limits := range map[string]events.Limits{
		"no limits":           {},
		"half of the rounds":  {MaxRounds: 2},
		"most of the calls":   {ToolCalls: 3},
		"all of the tokens":   {TotalTokens: 21},
		"one model call less": {Requests: 2},
	} {
		var want, caches []string
		steps := 0
		synctest.Test(t, func(t *testing.T) {
			s := newStopped(t, limits)
			end, n := s.run(0)
			want, caches, steps = ending(end), s.caches, n
		})
		if limits == (events.Limits{}) && (steps < 8 || !slices.Contains(caches, "turn-1/2: required") || !slices.Contains(caches, "turn-1/3: none")) {
			t.Fatalf("%s: %d steps, caches %q, and it came to %q", name, steps, caches, want)
		}
		for at := 1; at < steps; at++ {
			synctest.Test(t, func(t *testing.T) {
				s := newStopped(t, limits)
				end, _ := s.run(at)
				if diff := cmp.Diff(want, ending(end)); diff != "" {
					t.Errorf("%s: taken over at step %d (-want +got):\n%s", name, at, diff)
				}
				if !slices.Equal(s.caches, caches) {
					t.Errorf("%s: taken over at step %d the model was called with %q, want %q", name, at, s.caches, caches)
				}
				recorded[events.Warning](t, s.log, "s") // which has it audited
			})
		}
	}
}
