package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/tracing"
	"github.com/turnlog/turnlog/loop"
)

func newSession(j journal.Journal, steps ...engine.Step) *engine.Session {
	return &engine.Session{
		Replica: engine.Replica{State: loop.New("s")}, Log: zap.NewNop(), Append: j.Append, Steps: steps,
	}
}

func claim(id string) commands.Envelope {
	return commands.Envelope{ID: id, Session: "s", Command: commands.Claim{Node: "n"}}
}

func TestACommandIsCompletedInOrderThenDecidedAndAppended(t *testing.T) {
	t.Parallel()
	j, order := journal.NewMemory(), ""
	step := func(name string) engine.Step {
		return engine.Step{Name: name, Do: func(_ context.Context, env *commands.Envelope) error {
			order += name
			env.At++
			return nil
		}}
	}
	s := newSession(j, step("a"), step("b"))
	s.Cursors = func() []events.Cursor { return []events.Cursor{{Lane: events.LaneAsk, Seq: 7}} }
	for i := range 2 {
		entry, err := s.Handle(t.Context(), claim(string(rune('x'+i))))
		if err != nil || entry.Seq != uint64(i+1) || entry.Epoch != uint64(i+1) || entry.At != 2 {
			t.Fatalf("Handle = %+v, %v", entry, err)
		}
	}
	if entry, err := s.Handle(t.Context(), claim("x")); err != nil || entry.Seq != 0 {
		t.Errorf("Handle of a repeated command = %+v, %v", entry, err)
	}
	last, err := j.Last(t.Context(), "s")
	if err != nil || last.Head != s.Head || s.State.Cursor(events.LaneAsk) != 7 || order != "ababab" {
		t.Errorf("journal ends at %+v, %v; session at %+v after steps %s", last.Head, err, s.Head, order)
	}
}

func TestEntriesAreAppendedUnderTheTraceOfTheirCommand(t *testing.T) {
	t.Parallel()
	s, got := newSession(journal.NewMemory()), ""
	appendEntry := s.Append
	s.Append = func(ctx context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
		got = tracing.Parent(ctx)
		return appendEntry(ctx, head, e)
	}
	env := claim("x")
	env.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if _, err := s.Handle(t.Context(), env); err != nil || got != env.TraceParent {
		t.Errorf("Append under trace %q, %v, want %q", got, err, env.TraceParent)
	}
}

func TestTheErrorOfAStepNamesItAndTheNextCommandIsHandled(t *testing.T) {
	t.Parallel()
	no := &commands.Rejection{Reason: "no"}
	s := newSession(journal.NewMemory(), engine.Step{Name: "catalog", Do: func(_ context.Context, env *commands.Envelope) error {
		if env.ID == "refused" {
			return no
		}
		return nil
	}})
	if _, err := s.Handle(t.Context(), claim("refused")); !errors.Is(err, no) || err.Error() != "catalog: no" {
		t.Errorf("Handle = %v", err)
	}
	if entry, err := s.Handle(t.Context(), claim("next")); err != nil || entry.Seq != 1 {
		t.Errorf("Handle = %+v, %v", entry, err)
	}
}

// lost is a journal that writes and loses its answers.
type lost struct{ journal.Journal }

func (l lost) Append(ctx context.Context, h journal.Head, e events.Entry) (journal.Head, error) {
	_, err := l.Journal.Append(ctx, h, e)
	return h, errors.Join(err, journal.ErrUnknown)
}

func TestAfterAnUncertainAppendTheSessionMustBeReadAgain(t *testing.T) {
	t.Parallel()
	j := journal.NewMemory()
	s := newSession(lost{j})
	if _, err := s.Handle(t.Context(), claim("a")); !errors.Is(err, journal.ErrUnknown) || !strings.Contains(err.Error(), "append s after 0") {
		t.Errorf("Handle = %v", err)
	}
	if _, err := s.Handle(t.Context(), claim("b")); err == nil || !errors.Is(err, s.Failed()) {
		t.Errorf("the next Handle = %v, want %v", err, s.Failed())
	}
	read, err := engine.Reader{Journal: j}.Read(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	s.Adopt(read)
	if entry, err := s.Handle(t.Context(), claim("a")); err != nil || entry.Seq != 0 || s.Head.Seq != 1 {
		t.Errorf("Handle after it was read = %+v, %v at %d: the entry was written", entry, err, s.Head.Seq)
	}
}

func TestAPanicIsAnErrorThatNamesItsSession(t *testing.T) {
	t.Parallel()
	s := newSession(journal.NewMemory(), engine.Step{Name: "hooks", Do: func(_ context.Context, env *commands.Envelope) error {
		if env.ID == "bad" {
			panic("broken hook")
		}
		return nil
	}})
	if _, err := s.Handle(t.Context(), claim("good")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Handle(t.Context(), claim("bad"))
	p, ok := errors.AsType[*engine.PanicError](err)
	if !ok || p.Session != "s" || p.Seq != 1 || p.Value != "broken hook" || !strings.Contains(string(p.Stack), "session_test.go") {
		t.Fatalf("Handle = %+v", err)
	}
	if want := "panic in session s at 1, during claim: broken hook"; err.Error() != want {
		t.Errorf("it reads %q, want %q", err, want)
	}
	if _, err := s.Handle(t.Context(), claim("good2")); !errors.Is(err, p) {
		t.Errorf("the next Handle = %v", err)
	}
}

func TestAPanicInAnEffectIsPassedOn(t *testing.T) {
	t.Parallel()
	caught := make(chan *engine.PanicError, 1)
	p := engine.NewPerformer(t.Context(), func(context.Context, loop.Effect, *engine.View) commands.Command { panic("broken effect") },
		nil, func(e *engine.PanicError) { caught <- e })
	synced(t, p, []loop.Effect{recall("a")})
	if e := <-caught; e.During != "recall/a" || e.Value != "broken effect" || !strings.Contains(string(e.Stack), "session_test.go") {
		t.Errorf("it is %+v", e)
	}
}

func TestASessionGetsTheToolsOfItsConfigurationWhenItOpens(t *testing.T) {
	t.Parallel()
	var asked []string
	s := newSession(journal.NewMemory())
	s.Steps = []engine.Step{s.Stamp(), s.Sample(func(ctx context.Context, c events.Config) (*engine.Catalog, error) {
		asked = append(asked, c.Model)
		return engine.NewCatalog(ctx, nil, 0, nil, false)
	})}
	open := commands.OpenSession{Config: events.Config{Model: "m"}}
	for _, env := range []commands.Envelope{{ID: "open", Session: "s", Command: open}, claim("c")} {
		if _, err := s.Handle(t.Context(), env); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(asked, []string{"m", "m"}) || s.State.At == content.Time(0) || s.Catalog == nil {
		t.Errorf("asked for the tools of %q at %v", asked, s.State.At)
	}
}

// A tool source that is down fails commands, but running calls keep their tools.
func TestTheCatalogStaysWhileASourceIsDown(t *testing.T) {
	t.Parallel()
	down := false
	s := newSession(journal.NewMemory())
	s.Steps = []engine.Step{s.Sample(func(ctx context.Context, _ events.Config) (*engine.Catalog, error) {
		if down {
			return nil, errors.New("the source is down")
		}
		return engine.NewCatalog(ctx, nil, 0, nil, false)
	})}
	if _, err := s.Handle(t.Context(), claim("first")); err != nil {
		t.Fatal(err)
	}
	down = true
	if _, err := s.Handle(t.Context(), claim("second")); err == nil || s.View(nil).Catalog == nil {
		t.Errorf("Handle = %v, catalog %v", err, s.View(nil).Catalog)
	}
}
