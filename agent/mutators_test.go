package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// placed is a mutator at one point.
type placed struct {
	at   extension.Point
	edit func(context.Context, *extension.Mutation) error
}

func (placed) Name() string                { return "placed" }
func (p placed) Points() []extension.Point { return []extension.Point{p.at} }
func (p placed) Mutate(ctx context.Context, m *extension.Mutation) error {
	return p.edit(ctx, m)
}

// lines are the items that a transcript observer was shown.
type lines struct{ seen []string }

func (l *lines) OnItemAppended(_ content.SessionID, it content.Item) {
	l.seen = append(l.seen, string(it.Kind)+" "+it.Text())
}

func TestTranscriptObserversSeeItemsThatAMutatorAppends(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(context.Context, *extension.Mutation) error
		want string
	}{
		"appends": {func(_ context.Context, m *extension.Mutation) error {
			m.Items = append(m.Items, content.UserText("noted"))
			return nil
		}, "user go, user noted, assistant done"},
		"rewrites": {func(_ context.Context, m *extension.Mutation) error {
			m.Items = []content.Item{content.UserText("short"), content.UserText("shorter"), content.UserText("shortest")}
			return nil
		}, "user go, assistant done"},
		"edits and appends": {func(_ context.Context, m *extension.Mutation) error {
			m.Items[0].Parts[0].Text = "edited"
			m.Items = append(m.Items, content.UserText("noted"))
			return nil
		}, "user go, assistant done"},
	} {
		l := &lines{}
		d := start(t, agent.Config{
			Model: replies(modeltest.Text("done")), TranscriptObservers: []extension.TranscriptObserver{l},
			Mutators: []extension.Mutator{placed{extension.BeforeModel, tc.edit}},
		})
		if _, err := d.RunText(t.Context(), "go"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.seen, ", "); got != tc.want {
			t.Errorf("%s: shown were %q, want %q", name, got, tc.want)
		}
	}
}

func TestAMutatorIsRecordedOnlyAtItsPoint(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	d := start(t, agent.Config{
		Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), modeltest.Text("done")), Tools: []tool.Source{echo(t)}, Journal: log,
		Mutators: []extension.Mutator{placed{extension.AfterToolResult, func(context.Context, *extension.Mutation) error { return nil }}},
	})
	if _, err := d.RunText(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	var points []string
	for rec, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(events.MutationStarted); ok {
				points = append(points, e.Point)
			}
		}
	}
	if !slices.Equal(points, []string{string(extension.AfterToolResult)}) {
		t.Errorf("it was started at %v", points)
	}
	_, err := agent.New(agent.Config{Model: replies(), Mutators: []extension.Mutator{placed{at: extension.PreLlmCall}}})
	if want := "agent config: Mutators: placed is registered at pre_llm_call, which has no mutators"; errText(err) != want {
		t.Errorf("New = %v", err)
	}
}

func TestADrainDuringAMutatorLeavesTheTurnOpen(t *testing.T) {
	t.Parallel()
	ctx, giveUp := context.WithCancel(t.Context())
	runs := 0
	d := start(t, agent.Config{
		Model: replies(modeltest.Text("done")), Input: []content.Item{content.UserText("go")},
		Mutators: []extension.Mutator{placed{extension.BeforeModel, func(ctx context.Context, _ *extension.Mutation) error {
			if runs++; runs > 1 {
				return nil
			}
			giveUp()
			<-ctx.Done()
			return context.Cause(ctx)
		}}},
	})
	if _, err := d.Next(ctx); err == nil {
		t.Fatal("Next went on")
	}
	if got := step[*session.Finished](t, d).Result.Text(); got != "done" || runs != 2 {
		t.Errorf("the turn ended with %q after %d runs", got, runs)
	}
}
