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

func TestStopKeepsTheReportsOfWhatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // who is heard first is a matter of luck
			p := engine.NewPerformer(t.Context(), func(ctx context.Context, e loop.Effect, _ *engine.View) commands.Command {
				if e.Identity() == "recall/kept" {
					return commands.ReportRecall{} // it waits to be taken
				}
				<-ctx.Done()
				return commands.ReportRecall{}
			}, nil)
			synced(t, p, []loop.Effect{recall("kept"), recall("stopped")})
			synctest.Wait()
			stopped := p.Stop(errors.New("the host gives up"), func(id string) bool { return id == "recall/kept" })
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
				t.Fatal("the report of an effect that goes on is lost")
			}
			p.Cancel(context.Canceled)
		}
	})
}

// proposing is a tool that breaks when it is asked what it will do.
type proposing struct{ tool.Tool }

func (proposing) Propose(context.Context, tool.Call) ([]tool.Request, error) { panic("propose broke") }

func TestAToolThatBreaksInPreflightIsNotRun(t *testing.T) {
	t.Parallel()
	f, err := tool.Func("odd", "Breaks.", func(context.Context, struct{}) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	reg, err := tool.NewRegistry("r")
	if err != nil {
		t.Fatal(err)
	}
	reg.Add(proposing{f})
	cat, err := engine.NewCatalog(t.Context(), []tool.Source{reg}, tool.FirstWins, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := engine.NewRunner(engine.Config{}).Check(t.Context(), "s", "turn-1", loop.Rules{}, cat, []engine.Call{
		{ToolCall: content.ToolCall{Place: "t1-r1-c1", Name: "odd"}},
	})[0]
	if k.Place != "t1-r1-c1" || k.Refusal == nil || k.Refusal.Code != tool.CodePanic {
		t.Errorf("check = %+v", k)
	}
}

// forgetful is a memory that breaks.
type forgetful struct{}

func (forgetful) Recall(context.Context, string) ([]content.Item, error) { panic("no memory") }
func (forgetful) Remember(context.Context, string, string) error         { panic("no memory") }

func TestAMemoryThatBreaksIsReported(t *testing.T) {
	t.Parallel()
	r := engine.NewRunner(engine.Config{Memory: forgetful{}})
	if got, ok := r.Recall(t.Context(), loop.Recall{}).(commands.ReportRecall); !ok || got.Error == "" {
		t.Errorf("recall = %+v", got)
	}
	if got, ok := r.Remember(t.Context(), loop.StoreMemory{}).(commands.ReportMemory); !ok || got.Error == "" {
		t.Errorf("remember = %+v", got)
	}
}

// patchy is a memory of which a part is at hand.
type patchy struct{ forgetful }

func (patchy) Recall(context.Context, string) ([]content.Item, error) {
	return []content.Item{content.UserText("known")}, errors.New("the rest is not there")
}

func TestWhatAMemoryKnowsCountsThoughItDoesNotKnowAll(t *testing.T) {
	t.Parallel()
	r := engine.NewRunner(engine.Config{Memory: patchy{}})
	got, ok := r.Recall(t.Context(), loop.Recall{}).(commands.ReportRecall)
	if !ok || got.Error != "the rest is not there" || len(got.Items) != 1 {
		t.Errorf("recall = %+v", got)
	}
}

func TestHooksOfATurnThatIsOverAreNotAsked(t *testing.T) {
	t.Parallel()
	r := engine.NewRunner(engine.Config{Hooks: []extension.Hook{hook{name: "h"}}})
	for _, turn := range []*loop.Turn{nil, {ID: "turn-2"}} {
		got := r.RunHooks(t.Context(), loop.RunHooks{Turn: "turn-1", Round: 1, Point: string(extension.PostLlmCall)}, &engine.View{Turn: turn})
		if got != nil {
			t.Errorf("answer = %+v", got)
		}
	}
}
