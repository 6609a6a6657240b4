package audit

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// driven is a session whose commands a test sends to the core, one second apart.
type driven struct {
	t       *testing.T
	state   *loop.State
	head    journal.Head
	records []journal.Record
	sent    int
	checks  []commands.Check // for the next command only
}

func drive(t *testing.T, open commands.OpenSession) *driven {
	t.Helper()
	d := &driven{t: t, state: loop.New("s-1")}
	d.do(commands.Claim{Node: "a"})
	d.do(open)
	return d
}

func (d *driven) envelope(c commands.Command) commands.Envelope {
	d.sent++
	env := commands.Envelope{
		ID: fmt.Sprintf("cmd-%d", d.sent), Session: "s-1", By: "ada",
		At: content.Time(d.sent) * content.Time(time.Second), Command: c, Checks: d.checks,
	}
	d.checks = nil
	return env
}

// do sends a command that must cause an entry.
func (d *driven) do(c commands.Command) {
	d.t.Helper()
	if n := len(d.records); d.try(c) != nil || len(d.records) == n {
		d.t.Fatalf("%s caused no entry; %d approvals are open", commands.NameOf(c), len(d.state.PendingApprovals()))
	}
}

func (d *driven) try(c commands.Command) error {
	d.t.Helper()
	env := d.envelope(c)
	evs, err := loop.Decide(d.state, env)
	var refused *commands.Rejection
	if err != nil && !errors.As(err, &refused) {
		d.t.Fatal(err)
	}
	if len(evs) == 0 {
		return err
	}
	epoch := d.state.Epoch
	if claim, ok := evs[0].(events.DriverClaimed); ok {
		epoch = claim.Epoch
	}
	e := events.Entry{Session: "s-1", Cause: env.ID, At: max(env.At, d.state.At), Epoch: epoch, Events: evs}
	e, payload, head, err := journal.Link(d.head, e)
	if err != nil {
		d.t.Fatal(err)
	}
	d.head = head
	d.records = append(d.records, journal.Record{Head: head, Entry: e, Payload: payload})
	d.state.Fold(e)
	return nil
}

func (d *driven) say(text string) {
	d.do(commands.SubmitInput{Items: []content.Item{content.UserText(text)}})
}

func (d *driven) modelCall() commands.ModelCall {
	d.t.Helper()
	t := d.state.Turn
	if t == nil {
		d.t.Fatal("no turn is open")
	}
	return commands.ModelCall{Turn: t.ID, Round: t.Round, Attempt: t.Attempt}
}

// reply answers the open model call with text, or with calls of the named tools.
func (d *driven) reply(text string, tools ...string) {
	d.t.Helper()
	parts := []content.Part{content.TextPart(text)}
	var routing []content.Routing
	for i, name := range tools {
		call := content.ToolCall{ID: content.CallID(fmt.Sprintf("r%d_%d", d.sent, i)), Name: name, Input: []byte(arguments)}
		parts = append(parts, content.CallPart(call))
		routing = append(routing, routingOf(name))
	}
	d.do(commands.ReportReply{
		ModelCall: d.modelCall(), Items: []content.Item{content.NewItem(content.Assistant, parts...)}, Routing: routing,
		Usage: content.Usage{InputTokens: 10, OutputTokens: 2},
	})
}

// arguments are those of every call.
const arguments = `{"a":1}`

func routingOf(name string) content.Routing {
	r := content.Routing{Known: true, Source: "test", Queue: "q", Digest: tool.Digest([]byte(arguments))}
	switch name {
	case "later":
		r.Route = content.Background
	case "safe":
		r.Effects = content.ReadOnly
	case "safe_later":
		r.Effects, r.Route = content.ReadOnly, content.Background
	case "slow":
		r.Timeout = time.Second
	case "detaching":
		r.Route, r.DetachAfter = content.DetachSoon, time.Second
	}
	return r
}

// preflight allows every call of the round, except those of the tools questioned (which need an
// approval) and forbidden (which are denied).
func (d *driven) preflight(hooks ...commands.HookAnswer) {
	d.t.Helper()
	t := d.state.Turn
	report := commands.ReportPreflight{Turn: t.ID, Round: t.Round, Hooks: hooks}
	for _, c := range t.Calls {
		check := commands.Check{Place: c.Place, Digest: tool.Digest(c.EffectiveInput())}
		switch c.Name {
		case "questioned":
			check.Questions = []commands.Question{{RequestKind: "one"}, {RequestKind: "two"}}
		case "forbidden":
			check.Refusal = &commands.Refusal{Status: content.StatusDenied, Code: "no", Message: "Permission denied: no"}
		}
		report.Checks = append(report.Checks, check)
	}
	d.do(report)
}

func (d *driven) place(n int) content.Place {
	return content.PlaceOf(d.state.Turn.N, d.state.Turn.Round, n)
}

func (d *driven) result(p content.Place, s content.Status) {
	d.t.Helper()
	d.do(commands.ReportResult{
		Place: p, Attempt: 1, Queue: "q", Outcome: tool.Result{Result: content.NewResult("", "", s, "out of "+string(p))},
	})
}

func (d *driven) finished(want content.FinishReason) {
	d.t.Helper()
	if d.state.Turn != nil || d.state.Last == nil || d.state.Last.FinishReason != want {
		d.t.Fatalf("the turn is not %s: %+v, %+v", want, d.state.Turn, d.state.Last)
	}
}

func TestTheCoresJournalsKeepEveryInvariant(t *testing.T) {
	t.Parallel()
	for name, story := range stories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := story(t)
			report, err := Verify(journal.All(d.records))
			if err != nil || !report.OK() || len(report.Warnings) > 0 {
				t.Errorf("%v, warnings %v, error %v", report.Faults, report.Warnings, err)
				for _, r := range d.records {
					t.Logf("%d %s %v", r.Seq, r.Entry.Cause, r.Entry.Kinds())
				}
			}
			if report.Entries != len(d.records) || report.Head.Seq != d.head.Seq || report.Head.Hash != d.head.Hash || report.Turns != d.state.Turns {
				t.Errorf("wrong counts: %+v", report)
			}
			if report.UnjudgedFrom != 0 {
				t.Errorf("entries from %d on were not checked", report.UnjudgedFrom)
			}
		})
	}
}

func TestTheTranscriptEqualsTheCores(t *testing.T) {
	t.Parallel()
	for name, story := range stories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := story(t)
			var entries []events.Entry
			for _, r := range d.records {
				entries = append(entries, r.Entry)
			}
			got := Transcript(entries)
			if len(got) != len(d.state.Transcript) {
				t.Fatalf("%d items, want %d", len(got), len(d.state.Transcript))
			}
			for i, want := range d.state.Transcript {
				if got[i].Kind != want.Kind || got[i].CreatedAt != 0 && got[i].CreatedAt != want.CreatedAt || !reflect.DeepEqual(got[i].Parts, want.Parts) {
					t.Errorf("item %d is\n%+v, want\n%+v", i+1, got[i], want)
				}
			}
			replayed, err := Replay("s-1", journal.All(d.records))
			if err != nil || !reflect.DeepEqual(replayed, d.state) {
				t.Errorf("the replayed state differs, %v", err)
			}
		})
	}
}
