package compact_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/compact"
	"github.com/turnlog/turnlog/session"
)

// echo answers the last input and records its requests. It counts a token for
// every item.
type echo struct{ shown *[][]content.Item }

func newEcho() echo { return echo{new([][]content.Item)} }

func (echo) Name() string { return "fake:echo" }

func (echo) Capabilities() model.Capabilities { return model.Capabilities{Tools: true} }

func (e echo) Call(_ context.Context, r model.Request, _ func(content.Delta)) (model.Reply, error) {
	*e.shown = append(*e.shown, r.Transcript)
	last := r.Transcript[len(r.Transcript)-1]
	return model.Reply{
		Items:        []content.Item{content.AssistantText("You said: " + last.Text())},
		Usage:        content.Usage{InputTokens: int64(len(r.Transcript)), OutputTokens: 1},
		FinishReason: content.Completed,
	}, nil
}

func start(t *testing.T, cfg agent.Config) *session.Session {
	t.Helper()
	a, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// number returns an input of 20 tokens.
func number(n int) string { return fmt.Sprintf("number %d %s", n, strings.Repeat(".", 55)) }

func say(t *testing.T, d *session.Session, text string) *session.RunResult {
	t.Helper()
	res, err := d.RunText(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// recorded reads the session's journal, which must keep every invariant.
func recorded(t *testing.T, j journal.Journal) []events.Event {
	t.Helper()
	report, err := audit.Verify(j.Read(t.Context(), "s", 0))
	if err != nil || !report.OK() {
		t.Fatalf("Verify = %+v, %v", report.Faults, err)
	}
	var all []events.Event
	for r, err := range j.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Entry.Events...)
	}
	return all
}

// mutations pairs starts with outcomes.
func mutations(t *testing.T, all []events.Event) []events.MutationFinished {
	t.Helper()
	var finished []events.MutationFinished
	open := 0
	for _, ev := range all {
		switch ev := any(ev).(type) {
		case events.MutationStarted:
			open++
		case events.MutationFinished:
			open--
			finished = append(finished, ev)
		}
	}
	if open != 0 {
		t.Errorf("%d mutations were started and not finished", open)
	}
	return finished
}

func dirty(all []events.MutationFinished) []events.MutationFinished {
	return slices.DeleteFunc(slices.Clone(all), func(m events.MutationFinished) bool { return !m.Dirty })
}

func summarising(m model.Model) *compact.Config {
	return &compact.Config{
		Trigger:  compact.Trigger{Items: 6},
		Strategy: compact.Summarise{Model: m, Keep: compact.KeepRecent{Turns: 2}, MaxTokens: 20},
	}
}

func TestTheJournalRecordsACompactionAndKeepsTheHistory(t *testing.T) {
	t.Parallel()
	j, e := journal.NewMemory(), newEcho()
	c, err := compact.New(*summarising(writes("The user counted.")))
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, agent.Config{Model: e, SystemPrompt: "Be brief.", Journal: j, Compaction: c})
	for n := range 4 {
		say(t, d, number(n))
	}
	all := recorded(t, j)
	done := dirty(mutations(t, all))
	if len(done) != 1 {
		t.Fatalf("%d compactions", len(done))
	}
	m := done[0]
	if m.Mutator != "compaction" || m.Point != string(extension.BeforeModel) || m.Turn != "turn-4" || m.Before == m.After ||
		m.NewTokens >= m.OldTokens || m.Usage.InputTokens != 40 || m.Metadata.Text(compact.MetaReason) != "item_count" {
		t.Errorf("recorded %+v", m)
	}
	if got := short((*e.shown)[3]); got != "s x u a u" {
		t.Errorf("the model sees %s", got)
	}
	if got := (*e.shown)[3][1].Text(); !strings.HasSuffix(got, "The user counted.") {
		t.Errorf("the summary is %q", got)
	}
	// The journal still has everything, and the summary refers to it.
	history := conversation(all)
	for n := range 4 {
		if !strings.Contains(history, number(n)+";You said: "+number(n)+";") {
			t.Errorf("number %d is missing in %s", n, history)
		}
	}
	if got := d.Snapshot().Usage; got.InputTokens != 2+4+6+5+40 {
		t.Errorf("usage %+v", got)
	}
}

// conversation returns the conversation from the journal.
func conversation(all []events.Event) string {
	var b strings.Builder
	for _, ev := range all {
		var items []content.Item
		switch ev := any(ev).(type) {
		case events.InputAccepted:
			items = ev.Items
		case events.ReplyRecorded:
			items = ev.Items
		}
		for _, it := range items {
			b.WriteString(it.Text() + ";")
		}
	}
	return b.String()
}

func TestARestartedSessionStaysCompacted(t *testing.T) {
	t.Parallel()
	j, e, p := journal.NewMemory(), newEcho(), writes("The user counted.")
	c, err := compact.New(*summarising(p))
	if err != nil {
		t.Fatal(err)
	}
	cfg := agent.Config{Model: e, SystemPrompt: "Be brief.", Journal: j, Compaction: c}
	d := start(t, cfg)
	for n := range 4 {
		say(t, d, number(n))
	}
	before := d.Snapshot().Transcript
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	d = start(t, cfg)
	if got := short(d.Snapshot().Transcript); got != short(before) || got != "s x u a u a" {
		t.Fatalf("after the restart the transcript is %s, it was %s", got, short(before))
	}
	say(t, d, "and on")
	if got := short((*e.shown)[4]); got != "s x x u a u" || len(*p.requests) != 2 {
		t.Errorf("the model sees %s after %d summaries", got, len(*p.requests))
	}
	if n := len(dirty(mutations(t, recorded(t, j)))); n != 2 {
		t.Errorf("%d compactions are recorded", n)
	}
}

// dying is a model for summaries whose host fails during the first call.
type dying struct {
	pen
	die func()
}

func (m dying) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if len(*m.requests) == 0 {
		*m.requests = append(*m.requests, r)
		m.die()
		<-ctx.Done()
		return model.Reply{}, context.Cause(ctx)
	}
	return m.pen.Call(ctx, r, emit)
}

func TestACompactionLostWithItsHostIsRepeated(t *testing.T) {
	t.Parallel()
	j, e := journal.NewMemory(), newEcho()
	died := errors.New("the host died")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := dying{pen: writes("The user counted."), die: func() { cancel(died) }}
	c, err := compact.New(*summarising(p))
	if err != nil {
		t.Fatal(err)
	}
	cfg := agent.Config{Model: e, SystemPrompt: "Be brief.", Journal: j, Compaction: c}
	d := start(t, cfg)
	for n := range 3 {
		say(t, d, number(n))
	}
	if err := d.Send(t.Context(), session.Steer, content.UserText(number(3))); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Next(ctx); !errors.Is(err, died) {
		t.Fatalf("Next = %v", err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	d = start(t, cfg)
	step, err := d.Next(t.Context())
	if f, ok := step.(*session.Finished); !ok || err != nil || f.Result.Text() != "You said: "+number(3) {
		t.Fatalf("Next = %+v, %v", step, err)
	}
	if got := short((*e.shown)[3]); got != "s x u a u" {
		t.Errorf("the model sees %s", got)
	}
	done := dirty(mutations(t, recorded(t, j)))
	if len(done) != 1 || done[0].Usage.InputTokens != 40 {
		t.Errorf("recorded %+v", done)
	}
}

func TestAFailedSummaryEndsTheTurnAndChangesNothing(t *testing.T) {
	t.Parallel()
	j, e := journal.NewMemory(), newEcho()
	p := pen{requests: new([]model.Request), err: &model.Error{Class: content.ClassOverloaded, Message: "try later"}}
	c, err := compact.New(*summarising(p))
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, agent.Config{Model: e, SystemPrompt: "Be brief.", Journal: j, Compaction: c})
	for n := range 3 {
		say(t, d, number(n))
	}
	_, err = d.RunText(t.Context(), number(3))
	failed, ok := errors.AsType[*session.MutatorError](err)
	if !ok || !strings.Contains(failed.Error(), "overloaded: try later") {
		t.Fatalf("RunText = %v", err)
	}
	if got := short(d.Snapshot().Transcript); got != "s u a u a u a u" || len(*e.shown) != 3 {
		t.Errorf("the transcript is %s after %d replies", got, len(*e.shown))
	}
	if all := mutations(t, recorded(t, j)); len(dirty(all)) > 0 {
		t.Errorf("recorded %+v", all)
	}
}

// witness is a hook that records the compactions.
type witness struct{ seen *[]string }

func (witness) Name() string { return "witness" }

func (witness) Points() []extension.Point { return []extension.Point{extension.ContextCompaction} }

func (w witness) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	*w.seen = append(*w.seen, fmt.Sprintf("%s: %d of %d", e.Turn, e.NewTokens, e.OldTokens))
	return extension.Action{}, nil
}

func TestHooksRunOncePerCompaction(t *testing.T) {
	t.Parallel()
	j, e, w := journal.NewMemory(), newEcho(), witness{new([]string)}
	c, err := compact.New(compact.Config{Trigger: compact.Trigger{Items: 4}, Strategy: compact.KeepRecent{Turns: 2}})
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, agent.Config{Model: e, Journal: j, Compaction: c, Hooks: []extension.Hook{w}})
	for n := range 4 {
		say(t, d, number(n))
	}
	recorded(t, j)
	// The model counted 3 and 1 for u a u a, then came 20.
	want := []string{"turn-3: 15 of 24", "turn-4: 15 of 24"}
	if !slices.Equal(*w.seen, want) {
		t.Errorf("the hooks saw %q, want %q", *w.seen, want)
	}
}
