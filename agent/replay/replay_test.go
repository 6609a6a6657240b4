package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/agent/replay"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// TestAnUnchangedSessionGoesAsItWent replays every frozen journal. Only texts that changed between releases differ.
func TestAnUnchangedSessionGoesAsItWent(t *testing.T) {
	t.Parallel()
	for name, records := range frozen.Journals(t) {
		out := run(t, records, replay.Config{})
		if reworded := name == "approvals"; out.Diff.Same == reworded || len(out.Unrepeated) > 0 {
			t.Errorf("%s: %s", name, summary(out))
		}
		if bad, err := audit.Verify(journal.All(out.Records)); err != nil || !bad.OK() {
			t.Errorf("%s: the replay's journal: %v %v", name, bad.Faults, err)
		}
		if len(out.Records) != len(records) {
			t.Errorf("%s: %d entries, want %d", name, len(out.Records), len(records))
		}
	}
}

// trip is a session with a call that only reads and one that needs an approval.
const trip = `replies:
- {text: I look., calls: [{name: look, input: {where: oslo}}]}
- {text: I book., calls: [{name: book, input: {what: train}}]}
- text: Booked.
- text: You are welcome.`

// agency has the tools of the trip, and counts what they do.
type agency struct{ looks, books int }

func (a *agency) tools(t *testing.T) tool.Source {
	t.Helper()
	look, err := tool.Func("look", "Looks.", func(_ context.Context, in struct {
		Where string `json:"where"`
	},
	) (string, error) {
		a.looks++
		return "sunny in " + in.Where, nil
	}, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	book, err := tool.Func("book", "Books.", func(_ context.Context, in struct {
		What string `json:"what"`
	},
	) (string, error) {
		a.books++
		return in.What + " booked", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tool.NewRegistry("agency", look, book)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func script(t *testing.T, text string) *scripted.Model {
	t.Helper()
	m, err := scripted.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// yes approves everything.
type yes struct{ asked []string }

func (y *yes) Approve(_ context.Context, a events.Approval) (bool, string, error) {
	y.asked = append(y.asked, a.Tool)
	return true, "", nil
}

// booked runs the trip and returns its journal.
func booked(t *testing.T) []journal.Record {
	t.Helper()
	j := journal.NewMemory()
	a, err := agent.New(agent.Config{
		Model: script(t, trip), Tools: []tool.Source{(&agency{}).tools(t)}, Policy: new(permission.Default()), SystemPrompt: "You book trips.",
		Journal: j, Approver: &yes{},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Start(t.Context(), agent.SessionConfig{ID: "trip"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Book a trip", "Thanks"} {
		if _, err := s.RunText(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	var out []journal.Record
	for rec, err := range j.Read(t.Context(), "trip", 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

func run(t *testing.T, records []journal.Record, cfg replay.Config) *replay.Result {
	t.Helper()
	out, err := replay.Run(t.Context(), records, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestARecordedCallIsNotRepeated(t *testing.T) {
	t.Parallel()
	records, tools := booked(t), &agency{}
	out := run(t, records, replay.Config{Tools: []tool.Source{tools.tools(t)}, Live: true})
	if !out.Diff.Same || out.Recorded != 2 || out.Live != 0 || tools.looks+tools.books != 0 {
		t.Errorf("the same session: %s, the tools %+v", summary(out), tools)
	}
	// Another order, with the same calls: each gets its recorded result.
	other := script(t, `replies:
- {calls: [{name: book, input: {what: train}}, {name: look, input: {where: oslo}}]}
- text: "{{(index .Results 0).Text}}, {{(index .Results 1).Text}}"
repeat: true`)
	out = run(t, records, replay.Config{Model: other, Tools: []tool.Source{tools.tools(t)}})
	if out.Diff.Same || out.Recorded != 2 || out.Missing != 0 || tools.looks+tools.books != 0 || !said(out, "train booked, sunny in oslo") {
		t.Errorf("another order: %s, the tools %+v", summary(out), tools)
	}
}

// summary describes a replay.
func summary(out *replay.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d recorded, %d live, %d missing", out.Recorded, out.Live, out.Missing)
	for _, c := range out.Diff.Changes {
		fmt.Fprintf(&b, "\n%s %+v %+v", c.Change, c.A, c.B)
	}
	return b.String()
}

// said reports whether the replay has a reply with a text.
func said(out *replay.Result, text string) bool {
	for _, rec := range out.Records {
		for _, ev := range rec.Entry.Events {
			if r, ok := ev.(events.ReplyRecorded); ok && r.Items[0].Text() == text {
				return true
			}
		}
	}
	return false
}

func TestACallThatIsNotRecordedRunsOnlyLive(t *testing.T) {
	t.Parallel()
	records := booked(t)
	other := `replies:
- {calls: [{name: look, input: {where: bergen}}, {name: book, input: {what: ship}}]}
- text: "{{(index .Results 0).Text}}, {{(index .Results 1).Text}}"
repeat: true`
	tools := &agency{}
	out := run(t, records, replay.Config{Model: script(t, other), Tools: []tool.Source{tools.tools(t)}})
	if out.Missing != 2 || tools.looks+tools.books != 0 || !said(out, "Not run: this call is not in the journal that is replayed, Not run: this call is not in the journal that is replayed") {
		t.Errorf("not live: %s, the tools %+v", summary(out), tools)
	}
	out = run(t, records, replay.Config{Model: script(t, other), Tools: []tool.Source{tools.tools(t)}, Live: true})
	if out.Live != 1 || tools.looks != 1 || tools.books != 0 {
		t.Errorf("live without an approver: %s, the tools %+v", summary(out), tools)
	}
	person := &yes{}
	out = run(t, records, replay.Config{Model: script(t, other), Tools: []tool.Source{tools.tools(t)}, Live: true, Approver: person})
	if out.Live != 2 || tools.books != 1 || len(person.asked) != 1 || !said(out, "sunny in bergen, ship booked") {
		t.Errorf("live: %s, the tools %+v, asked about %v", summary(out), tools, person.asked)
	}
}

func TestAReplayBeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	records := booked(t)
	for _, rec := range records {
		out, err := replay.Run(t.Context(), records, replay.Config{From: rec.Seq})
		if rec.Seq == 1 {
			if !errors.Is(err, replay.ErrNoSession) {
				t.Errorf("from entry 1: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("from entry %d: %v", rec.Seq, err)
		}
		if !out.Diff.Same {
			t.Errorf("from entry %d: %s", rec.Seq, summary(out))
		}
	}
	if _, err := replay.Run(t.Context(), records, replay.Config{From: 99}); !errors.Is(err, replay.ErrNoSession) {
		t.Errorf("from entry 99: %v", err)
	}
	if _, err := replay.Run(t.Context(), append(slices.Clip(records[:2]), records[4:]...), replay.Config{}); err == nil {
		t.Error("a journal with a gap is replayed")
	}
	torn := slices.Clone(records)
	torn[2].Entry.Events = []events.Event{events.RoundFinished{Turn: "turn-1"}}
	if _, err := replay.Run(t.Context(), torn, replay.Config{}); err == nil || !strings.Contains(err.Error(), "observer verify") {
		t.Errorf("a journal that cannot be folded: %v", err)
	}
	if _, err := replay.Run(t.Context(), nil, replay.Config{}); !errors.Is(err, replay.ErrNoSession) {
		t.Errorf("without entries: %v", err)
	}
	out := run(t, records, replay.Config{Model: script(t, `replies: [{text: No.}]`+"\nrepeat: true"), Stop: true})
	if out.Diff.Same || len(turns(out)) != 1 {
		t.Errorf("a replay that stops has %d turns", len(turns(out)))
	}
	out = run(t, records, replay.Config{Model: script(t, `replies: [{text: No.}]`+"\nrepeat: true"), System: "Say no."})
	if len(turns(out)) != 2 {
		t.Errorf("a replay that continues has %d turns", len(turns(out)))
	}
	for _, rec := range out.Records {
		for _, ev := range rec.Entry.Events {
			if r, ok := ev.(events.RunStarted); ok && (len(r.Transcript) != 1 || r.Transcript[0].Text() != "Say no." || r.Transcript[0].Kind != content.System) {
				t.Errorf("with another prompt it begins with %+v", r.Transcript)
			}
		}
	}
}

func turns(out *replay.Result) (ends []events.TurnFinished) {
	for _, rec := range out.Records {
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(events.TurnFinished); ok {
				ends = append(ends, e)
			}
		}
	}
	return ends
}
