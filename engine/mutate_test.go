package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// editor is a mutator that calls its function.
type editor struct {
	edit   func(context.Context, *extension.Mutation) error
	points []extension.Point
}

func (editor) Name() string                { return "editor" }
func (e editor) Points() []extension.Point { return e.points }
func (e editor) Mutate(ctx context.Context, m *extension.Mutation) error {
	return e.edit(ctx, m)
}

func mutate(ctx context.Context, items []content.Item, edit func(context.Context, *extension.Mutation) error) commands.Command {
	r := engine.NewRunner(engine.Config{Mutators: []extension.Mutator{editor{edit: edit}}})
	return r.Mutate(ctx, loop.RunMutator{Turn: "turn-1", Round: 1, Mutator: "editor", Point: "before_model"}, &engine.View{Session: "s", Transcript: items})
}

func mutation(t *testing.T, c commands.Command) events.MutationFinished {
	t.Helper()
	rep, ok := c.(commands.ReportMutation)
	if !ok {
		t.Fatalf("report = %T", c)
	}
	return rep.Finished
}

func conversation() []content.Item {
	return []content.Item{
		content.UserText("go"),
		content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: "c1", Name: "a", Input: json.RawMessage(`{"n":1}`)})),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("c1", "a", content.StatusOK, "a long result"))),
	}
}

func TestAMutatorThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	items := conversation()
	f := mutation(t, mutate(t.Context(), items, func(_ context.Context, m *extension.Mutation) error {
		m.Items[1].Parts[0].Call.Input[5] = '2'
		m.Items[2].Parts[0].Result.Output[0].Text = "cut"
		return errors.New("half way")
	}))
	if f.Dirty || f.Error != "half way" {
		t.Errorf("mutation = %+v", f)
	}
	if diff := cmp.Diff(conversation(), items); diff != "" {
		t.Errorf("the transcript was edited (-want +got):\n%s", diff)
	}
}

func TestAnEditInPlaceIsFound(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{"JSON": `{"n":1}`, "no JSON": `{"n":`} {
		items := conversation()
		items[1].Parts[0].Call.Input = json.RawMessage(input)
		f := mutation(t, mutate(t.Context(), items, func(_ context.Context, m *extension.Mutation) error {
			m.Items[2].Parts[0].Result.Output[0].Text = "cut"
			return nil
		}))
		if !f.Dirty || f.Before == "" || f.After == f.Before || f.Replacement[2].Results()[0].Text() != "cut" {
			t.Errorf("%s: mutation = %+v", name, f)
		}
		clean := mutation(t, mutate(t.Context(), items, func(context.Context, *extension.Mutation) error { return nil }))
		if clean.Dirty || clean.Before != f.Before || clean.After != f.Before {
			t.Errorf("%s: a clean mutation = %+v", name, clean)
		}
	}
}

func TestAnAbandonedMutatorReportsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	got := mutate(ctx, conversation(), func(ctx context.Context, _ *extension.Mutation) error {
		cancel()
		return context.Cause(ctx)
	})
	if got != nil {
		t.Errorf("report = %+v", got)
	}
}

func TestAStoppedMutatorReportsItsUsage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	f := mutation(t, mutate(ctx, conversation(), func(ctx context.Context, m *extension.Mutation) error {
		m.Usage = content.Usage{InputTokens: 7}
		cancel(engine.ErrStop)
		return context.Cause(ctx)
	}))
	if f.Usage.InputTokens != 7 || f.Error == "" || f.Dirty {
		t.Errorf("mutation = %+v", f)
	}
	f = mutation(t, mutate(ctx, conversation(), func(context.Context, *extension.Mutation) error {
		t.Error("it started although it was stopped")
		return nil
	}))
	if f.Error == "" || f.Dirty {
		t.Errorf("mutation = %+v", f)
	}
}

func TestAbandonedNotesReportNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := engine.NewRunner(engine.Config{Notes: obedient{}})
	if got := r.Recall(ctx, loop.Recall{}); got != nil {
		t.Errorf("recall = %+v", got)
	}
	if got := r.Remember(ctx, loop.StoreMemory{}); got != nil {
		t.Errorf("remember = %+v", got)
	}
}

// obedient is a store of notes that stops with its context.
type obedient struct{}

func (obedient) Recall(ctx context.Context, _ string) ([]content.Item, error) { return nil, ctx.Err() }
func (obedient) Remember(ctx context.Context, _, _ string) error              { return ctx.Err() }

func TestMutatorsAreRegisteredWithTheirPoints(t *testing.T) {
	t.Parallel()
	_, got := engine.NewRunner(engine.Config{Mutators: []extension.Mutator{
		editor{points: []extension.Point{extension.BeforeModel, extension.AfterTurnEnded}}, anywhere{},
	}}).Registrations()
	want := []events.Registration{{Name: "editor", Points: []string{"before_model", "after_turn_ended"}}, {Name: "anywhere"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registrations (-want +got):\n%s", diff)
	}
}

// anywhere is a mutator that names no points.
type anywhere struct{}

func (anywhere) Name() string                                      { return "anywhere" }
func (anywhere) Mutate(context.Context, *extension.Mutation) error { return nil }

func TestAMutatorThatMustStopStillReports(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{true, false} {
		p := engine.NewPerformer(t.Context(), func(ctx context.Context, e loop.Effect, _ *engine.View) commands.Command {
			<-ctx.Done()
			return commands.ReportMutation{Finished: events.MutationFinished{Error: context.Cause(ctx).Error()}}
		}, nil, nil)
		e := loop.RunMutator{Turn: "turn-1", Round: 1, Mutator: "editor", Point: "before_model"}
		if started {
			synced(t, p, []loop.Effect{e})
		}
		e.Stop = true
		synced(t, p, []loop.Effect{e})
		r := <-p.Reports()
		if f := mutation(t, r.Command); f.Error != engine.ErrStop.Error() || r.Cause != e.Identity() {
			t.Errorf("started %v: report = %+v", started, r)
		}
		if synced(t, p, []loop.Effect{e}); !slices.Equal(p.Stop(engine.ErrStop, nil), []string{e.Identity()}) {
			t.Errorf("started %v: it was forgotten while it was owed", started)
		}
	}
}
