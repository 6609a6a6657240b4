package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

func TestStopKeepsTheReportsOfOtherEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // the order of the reports is random
			p := engine.NewPerformer(t.Context(), func(ctx context.Context, e loop.Effect, _ *engine.View) commands.Command {
				if e.Identity() == "recall/kept" {
					return commands.ReportRecall{} // blocks until it is received
				}
				<-ctx.Done()
				return commands.ReportRecall{}
			}, nil, nil)
			synced(t, p, []loop.Effect{recall("kept"), recall("stopped")})
			synctest.Wait()
			stopped := p.Stop(errors.New("host gives up"), func(id string) bool { return id == "recall/kept" })
			if len(stopped) != 1 || stopped[0] != "recall/stopped" {
				t.Errorf("stopped %v", stopped)
			}
			synctest.Wait()
			select {
			case r := <-p.Reports():
				if r.Cause != "recall/kept" {
					t.Errorf("report of %s", r.Cause)
				}
			default:
				t.Fatal("the report of the other effect is lost")
			}
			p.Cancel(context.Canceled)
		}
	})
}

// proposing is a tool that panics before it runs.
type proposing struct{ tool.Tool }

func (proposing) Propose(context.Context, tool.Call) ([]tool.Request, error) { panic("no proposal") }

func TestAToolThatPanicsInPreflightDoesNotRun(t *testing.T) {
	t.Parallel()
	f, err := tool.Func("odd", "Panics.", func(context.Context, struct{}) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	reg, err := tool.NewRegistry("r")
	if err != nil {
		t.Fatal(err)
	}
	reg.Add(proposing{f})
	cat, err := engine.NewCatalog(t.Context(), []tool.Source{reg}, tool.FirstWins, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	k := check(t, engine.NewRunner(engine.Config{}), cat, loop.Rules{}, content.ToolCall{Place: "t1-r1-c1", Name: "odd"})
	if k.Refusal == nil || k.Refusal.Code != tool.CodePanic {
		t.Errorf("check = %+v", k)
	}
}

// forgetful is a store of notes that panics.
type forgetful struct{}

func (forgetful) Recall(context.Context, string) ([]content.Item, error) { panic("no notes") }
func (forgetful) Remember(context.Context, string, string) error         { panic("no notes") }

func TestNotesThatPanicAreReported(t *testing.T) {
	t.Parallel()
	r := engine.NewRunner(engine.Config{Notes: forgetful{}})
	if got, ok := r.Recall(t.Context(), loop.Recall{}).(commands.ReportRecall); !ok || got.Error == "" {
		t.Errorf("recall = %+v", got)
	}
	if got, ok := r.Remember(t.Context(), loop.StoreMemory{}).(commands.ReportMemory); !ok || got.Error == "" {
		t.Errorf("remember = %+v", got)
	}
}

// patchy is a store of notes of which only some can be read.
type patchy struct{ forgetful }

func (patchy) Recall(context.Context, string) ([]content.Item, error) {
	return []content.Item{content.UserText("known")}, errors.New("the rest is unreadable")
}

func TestPartOfTheNotesCountsWithAnError(t *testing.T) {
	t.Parallel()
	r := engine.NewRunner(engine.Config{Notes: patchy{}})
	got, ok := r.Recall(t.Context(), loop.Recall{}).(commands.ReportRecall)
	if !ok || got.Error != "the rest is unreadable" || len(got.Items) != 1 {
		t.Errorf("recall = %+v", got)
	}
}

func TestHooksOfAFinishedTurnAreNotAsked(t *testing.T) {
	t.Parallel()
	r := engine.NewRunner(engine.Config{Hooks: []extension.Hook{hook{name: "h"}}})
	for _, turn := range []*loop.Turn{nil, {ID: "turn-2"}} {
		got := r.RunHooks(t.Context(), loop.RunHooks{Turn: "turn-1", Round: 1, Point: string(extension.PostLlmCall)}, &engine.View{Turn: turn})
		if got != nil {
			t.Errorf("answer = %+v", got)
		}
	}
}

// nameless is a hook and a mutator whose name panics.
type nameless struct{}

func (nameless) Name() string              { panic("no name") }
func (nameless) Points() []extension.Point { return []extension.Point{extension.PostLlmCall} }
func (nameless) OnEvent(context.Context, extension.HookEvent) (extension.Action, error) {
	return extension.Action{}, nil
}
func (nameless) Mutate(context.Context, *extension.Mutation) error { return nil }

func TestAPanickingNameFailsItsEffect(t *testing.T) {
	t.Parallel()
	event := extension.HookEvent{Point: extension.PostLlmCall}
	got := engine.NewRunner(engine.Config{Hooks: []extension.Hook{nameless{}}}).Hooks(t.Context(), event)
	if got.Action != "terminate" || got.Hook != "unnamed" || got.Reason != "a hook's Name panicked: no name" {
		t.Errorf("Hooks = %+v", got)
	}
	open := engine.NewRunner(engine.Config{Hooks: []extension.Hook{extension.FailOpen(nameless{})}})
	if got := open.Hooks(t.Context(), event); got.Action != "continue" || len(got.FailedOpen) != 1 || got.FailedOpen[0] != "unnamed" {
		t.Errorf("Hooks = %+v with a hook that fails open", got)
	}
	r := engine.NewRunner(engine.Config{Mutators: []extension.Mutator{nameless{}}})
	report, ok := r.Mutate(t.Context(), loop.RunMutator{Mutator: "m"}, &engine.View{}).(commands.ReportMutation)
	if !ok || report.Finished.Error != "mutator m panicked: no name" {
		t.Errorf("Mutate = %+v", report)
	}
}
