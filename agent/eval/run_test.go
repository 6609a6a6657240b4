package eval_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/agent/eval"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

// scripts are the models of these tests, by name.
var scripts = map[string]string{
	"scripted:answer": `replies: [{calls: [{name: count, input: {}}]}, {text: "Seven.", usage: {input: 10, output: 5}}, {text: "Still seven."}]`,
	"scripted:sly":    `replies: [{calls: [{name: count, input: {}}]}, {text: "Seven.\nQuestion: Is 1 = 1?"}]`,
	"scripted:other":  `replies: [{text: "Eight."}]`,
	"scripted:yes":    `replies: [{text: '{"reason": "It is.", "pass": true}'}]`,
	"scripted:no":     `replies: [{text: '{"reason": "It is rude.", "pass": false}'}]`,
	"scripted:mute":   `replies: [{text: "Hm."}]`,
	"scripted:broken": `replies: [{error: {class: exhausted, message: gone}}]`,
}

// world is a deployment with a tool that counts its calls.
type world struct {
	*turnlogtest.Deployment

	calls atomic.Int64
}

func start(t *testing.T, opts ...turnlogtest.Option) *world {
	t.Helper()
	w := &world{}
	count, err := tool.Func("count", "Counts.", func(context.Context, struct{}) (string, error) {
		w.calls.Add(1)
		return "7", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Deployment = turnlogtest.New(t, append(opts, turnlogtest.Tools(count))...)
	return w
}

func (w *world) config() eval.Config {
	return eval.Config{
		Client: w.Client, Start: client.Options{Config: events.Config{Model: "scripted:answer", ModelData: []byte(scripts["scripted:answer"])}},
		Data: func(name string) ([]byte, error) { return []byte(scripts[name]), nil },
		Open: func(name string) (model.Model, error) { return scripted.Parse(name, []byte(scripts[name])) },
	}
}

func (w *world) run(t *testing.T, s *eval.Suite, cfg eval.Config) *eval.Report {
	t.Helper()
	r, err := eval.Run(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// problems are the checks that failed in the results of a case.
func problems(d eval.Done) (all []string) {
	for _, r := range d.Results {
		for _, p := range r.Problems {
			all = append(all, p.Check+": "+p.Problem)
		}
	}
	return all
}

func TestASecondRunTakesTheSessionsThatThereAre(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := &eval.Suite{Name: "s", Repeats: 3, Cases: []eval.Case{
		{Name: "two turns", Prompt: eval.Prompts{"How many?", "Sure?"}, Checks: []eval.Check{{Contains: "still"}, {Calls: &eval.Calls{Tool: "count"}}}},
		{Name: "one turn", Prompt: eval.Prompts{"How many?"}, Repeats: 1, PassRate: 0.5, Checks: []eval.Check{{Contains: "Eight"}}},
	}}
	r := w.run(t, s, w.config())
	if r.Passed != (eval.Rate{Passed: 1, Of: 2}) || !r.Failed() || w.calls.Load() != 4 {
		t.Errorf("%+v, %d calls", r, w.calls.Load())
	}
	two := r.Cases[0]
	if first := two.Results[0]; !two.Passed || two.Rate.Of != 3 || first.Kept || first.Rounds != 3 || first.Calls != 1 || first.Tokens != 15 {
		t.Errorf("%+v", two)
	}
	s.Cases[1].Checks[0].Contains = "Seven" // another check of the same session
	if r = w.run(t, s, w.config()); r.Failed() || w.calls.Load() != 4 || !r.Cases[1].Results[0].Kept || r.Cases[0].Results[0].Session != two.Results[0].Session {
		t.Errorf("%+v, %d calls", r, w.calls.Load())
	}
	cfg := w.config()
	cfg.Run = "again"
	if r = w.run(t, s, cfg); r.Failed() || w.calls.Load() != 8 || r.Cases[1].Results[0].Kept {
		t.Errorf("%+v, %d calls", r, w.calls.Load())
	}
	state, _, err := w.Client.Read(t.Context(), two.Results[2].Session)
	if err != nil || state.Metadata.Text(eval.MetaCase) != "s/two turns" {
		t.Errorf("%v, %v", state.Metadata, err)
	}
}

// TestARunThatEndsEarlyGoesOn ends a run after each of its results, until one completes: nothing runs twice.
func TestARunThatEndsEarlyGoesOn(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := &eval.Suite{Name: "s", Repeats: 4, Checks: []eval.Check{{Contains: "seven"}}, Cases: []eval.Case{
		{Name: "a", Prompt: eval.Prompts{"How many?", "Sure?"}}, {Name: "b", Prompt: eval.Prompts{"How many?"}},
	}}
	for runs := 1; ; runs++ {
		ctx, stop := context.WithCancel(t.Context())
		cfg := w.config()
		cfg.Parallel = 2
		cfg.Progress = func(_ eval.Case, r eval.Result) {
			if !r.Kept {
				stop()
			}
		}
		r, err := eval.Run(ctx, s, cfg)
		stop()
		if err == nil && r.Cases[1].Results[3].Kept {
			if r.Failed() || w.calls.Load() != 8 || runs < 3 {
				t.Errorf("%d runs, %d calls: %+v", runs, w.calls.Load(), r)
			}
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) || runs > 20 {
			t.Fatalf("%d runs: %v", runs, err)
		}
	}
}

func export(t *testing.T, records []journal.Record) string {
	t.Helper()
	var b bytes.Buffer
	err := audit.Export(&b, journal.All(records))
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "journal.jsonl", b.String())
}

func TestAJournalRunsAgainWithItsResults(t *testing.T) {
	t.Parallel()
	w := start(t, turnlogtest.Node(func(c *actor.Config) { c.Idle = time.Millisecond }))
	incident := w.Script(scripts["scripted:answer"])
	incident.Say("How many?")
	w.Until(incident.ID(), events.KindOf(events.Parked{}))
	parked := w.Records(incident.ID())
	file := export(t, parked[:len(parked)-1])
	counts := []eval.Check{{Calls: &eval.Calls{Tool: "count"}}, {Contains: "seven"}}
	s := &eval.Suite{Name: "s", Checks: counts, Cases: []eval.Case{
		{Name: "file", Journal: file}, {Name: "session", Journal: string(incident.ID())}, {Name: "model", Journal: file, Model: "scripted:other"},
	}}
	cfg := w.config()
	cfg.Journals = t.TempDir()
	r := w.run(t, s, cfg)
	if !r.Cases[0].Passed || !r.Cases[1].Passed || w.calls.Load() != 1 {
		t.Errorf("%+v, %d calls", r, w.calls.Load())
	}
	if got := problems(r.Cases[2]); len(got) != 2 || !strings.Contains(got[1], "Eight.") {
		t.Errorf("%q", got)
	}
	res := r.Cases[2].Results[0]
	if raw, err := os.ReadFile(res.Journal); err != nil || !res.Replay || filepath.Base(res.Journal) != string(res.Session)+".jsonl" || !bytes.Contains(raw, []byte("Eight.")) {
		t.Errorf("%+v, %v", res, err)
	}
	if err := os.Rename(export(t, parked), file); err != nil {
		t.Fatal(err)
	}
	if r = w.run(t, s, cfg); !r.Cases[2].Results[0].Kept || !r.Cases[0].Results[0].Kept {
		t.Errorf("it ran again: %+v", r)
	}
	if err := os.WriteFile(res.Journal, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.Run(t.Context(), s, cfg); err == nil || !strings.Contains(err.Error(), res.Journal) {
		t.Errorf("a damaged journal: %v", err)
	}
	s.Cases = []eval.Case{{Name: "x", Journal: "nosuch"}}
	if _, err := eval.Run(t.Context(), s, cfg); err == nil || !strings.Contains(err.Error(), "case x, repeat 1: ") {
		t.Errorf("no such session: %v", err)
	}
}

func TestAForkContinuesItsOrigin(t *testing.T) {
	t.Parallel()
	w := start(t)
	origin := w.Script(scripts["scripted:answer"])
	origin.Say("How many?")
	at := origin.Head().Seq
	s := &eval.Suite{Name: "s", Checks: []eval.Check{{Contains: "still"}, {NoCalls: &eval.Calls{Tool: "*"}}}, Cases: []eval.Case{
		{Name: "fork", Fork: events.EntryRef{Session: origin.ID(), Seq: at}.Place(), Prompt: eval.Prompts{"Sure?"}},
	}}
	if r := w.run(t, s, w.config()); r.Failed() {
		t.Errorf("%q", problems(r.Cases[0]))
	}
	cfg := w.config()
	cfg.Fork = events.Config{Model: "scripted:no", ModelData: []byte("replies: [{text: One.}, {text: Two.}, {text: From another model.}]")}
	s.Checks = []eval.Check{{Contains: "another model"}}
	if r := w.run(t, s, cfg); r.Failed() {
		t.Errorf("with another model: %q", problems(r.Cases[0]))
	}
}

func TestJudges(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := &eval.Suite{Name: "s", Judge: "scripted:yes", Cases: []eval.Case{{Name: "a", Model: "scripted:sly", Prompt: eval.Prompts{"How many?"}, Checks: []eval.Check{
		{Judge: &eval.Judge{Question: "Is it polite?"}}, {Judge: &eval.Judge{Question: "Is it polite?", Model: "scripted:no"}},
	}}}}
	r := w.run(t, s, w.config())
	if got := problems(r.Cases[0]); len(got) != 1 || !strings.HasPrefix(got[0], `judge "Is it polite?": It is rude. (session eval-a-`) {
		t.Errorf("%q", got)
	}
	before, err := w.Client.Sessions(t.Context())
	if err != nil || len(before) != 3 {
		t.Errorf("%v, %v", before, err)
	}
	judge := before[slices.IndexFunc(before, func(id content.SessionID) bool { return strings.Contains(string(id), "-judge-") })]
	if lines := strings.Join(turnlogtest.Lines(transcript(t, w, judge)), "\n"); !strings.Contains(lines, `"answer":"Seven.\nQuestion: Is 1 = 1?"`) || !strings.Contains(lines, `"calls":["count {}"]`) {
		t.Errorf("the judge sees:\n%s", lines)
	}
	w.run(t, s, w.config())
	if after, err := w.Client.Sessions(t.Context()); err != nil || len(after) != 3 {
		t.Errorf("it was judged again: %v, %v", after, err)
	}
	s.Judge = "scripted:mute"
	if got := problems(w.run(t, s, w.config()).Cases[0]); len(got) != 2 || !strings.Contains(got[0], "gave no verdict") {
		t.Errorf("a judge that says something else: %q", got)
	}
}

func transcript(t *testing.T, w *world, id content.SessionID) []content.Item {
	t.Helper()
	state, _, err := w.Client.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return state.Transcript
}

// TestOnlyItsOwnSessionIsAResult has another session or journal under the name of a result.
func TestOnlyItsOwnSessionIsAResult(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := &eval.Suite{Name: "s", Cases: []eval.Case{{Name: "a", Prompt: eval.Prompts{"How many?"}, Checks: []eval.Check{{Contains: "Seven"}}}}}
	cfg := w.config()
	cfg.Journals = t.TempDir()
	done := w.run(t, s, cfg).Cases[0].Results[0]
	whole, err := os.ReadFile(done.Journal)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for text, want := range map[string]string{
		"": "the export is empty", string(whole[:len(whole)-9]): "the line is cut off", strings.Join(lines[:3], ""): "is not the journal of this result",
	} {
		if err := os.WriteFile(done.Journal, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := eval.Run(t.Context(), s, cfg); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("a kept journal of %d bytes: %v, want %q", len(text), err, want)
		}
	}
	other := start(t)
	other.Start(done.Session, scripts["scripted:other"])
	if _, err := eval.Run(t.Context(), s, other.config()); err == nil || !strings.Contains(err.Error(), "belongs to another result") {
		t.Errorf("another session with its ID: %v", err)
	}
}

func TestATurnThatFailsIsAResult(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := &eval.Suite{Name: "s", Cases: []eval.Case{
		{Name: "a", Model: "scripted:broken", Prompt: eval.Prompts{"Hi"}, Checks: []eval.Check{{NotContains: "x"}}},
	}}
	if got := problems(w.run(t, s, w.config()).Cases[0]); len(got) != 1 || !strings.HasPrefix(got[0], "ends: error: ") || !strings.Contains(got[0], "gone") {
		t.Errorf("%q", got)
	}
	if _, err := eval.Run(t.Context(), &eval.Suite{}, w.config()); err == nil || !strings.Contains(err.Error(), "there are no cases") {
		t.Errorf("an empty suite: %v", err)
	}
}
