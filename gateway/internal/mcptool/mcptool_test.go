package mcptool

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
)

var update = golden.Flag()

// follow shows a journal to a call and returns its progress.
func follow(all []journal.Record, c *Call) (lines []string) {
	st := stream.New(stream.Cursor{})
	for _, rec := range all {
		st.Entry(rec, func(ev stream.Event) { c.Show(ev, func(text string) { lines = append(lines, text) }) })
	}
	return lines
}

func TestRecordedJournalsHaveTheseResults(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approvals", "open_approval", "plain", "cancel", "fail_run", "partial", "replies", "model_lost", "limits", "background", "users", "tools"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := frozen.Journal(t, name)
			var b strings.Builder
			for n := 1; ; n++ {
				var lines, told []string
				for after := uint64(0); ; { // a client that answers what is asked, and follows on
					c := NewCall("s", n, after, after)
					part := follow(all, c)
					lines = append(lines, part...)
					if c.turn.Part() == 0 || !c.Done() {
						break
					}
					text, result, failed := c.Result()
					raw, err := json.Marshal(result)
					if err != nil {
						t.Fatal(err)
					}
					told = append(told, strings.Join(part, "\n"))
					fmt.Fprintf(&b, "# turn %d\n%s\n= %s\n%s failed: %v\n", n, strings.Join(part, "\n"), text, raw, failed)
					for _, a := range c.Open() {
						fmt.Fprintf(&b, "%s %s\n", FormOf(a).Message, FormOf(a).Schema)
					}
					if after = c.entry + 1; len(c.Open()) == 0 {
						break
					}
				}
				if told == nil {
					break
				}
				whole := NewCall("s", n, 1<<60, 0) // what its client gets once
				if again := follow(all, whole); len(again) > 0 {
					t.Errorf("told again: %q", again)
				}
				if first := follow(all, NewCall("s", n, 0, 0)); !slices.Equal(first, lines[:len(first)]) {
					t.Errorf("%q, then %q", first, lines)
				}
			}
			golden.Check(t, *update, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

func TestTextComesInWholeLines(t *testing.T) {
	t.Parallel()
	turn, st, c := content.TurnIDFor(1), stream.New(stream.Cursor{}), NewCall("s", 1, 0, 0)
	var lines []string
	show := func(ev stream.Event) { c.Show(ev, func(text string) { lines = append(lines, text) }) }
	entry := func(seq uint64, list ...events.Event) {
		st.Entry(journal.Record{Head: journal.Head{Seq: seq, Guard: seq}, Entry: events.Entry{Events: list}}, show)
	}
	at := 0
	said := func(op content.DeltaOp, text string) {
		at++
		st.Live(events.ContentDelta{Turn: turn, Round: 1, Attempt: 1, After: at, Delta: content.Delta{Op: op, Kind: content.TextKind, Text: text}}, show)
		at += len(text) - 1
	}
	entry(1, events.TurnStarted{Turn: turn}, events.RoundStarted{Turn: turn, Round: 1}, events.ModelCallStarted{Turn: turn, Round: 1, Attempt: 1})
	said(content.BeginPart, "")
	at = 0
	for _, text := range []string{"One", " line\nA", "nother\n\n", "the"} {
		said(content.AppendPart, text)
	}
	if want := []string{"One line", "Another"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	entry(2, events.ReplyRecorded{Turn: turn, Round: 1, Attempt: 1, Items: []content.Item{content.AssistantText("One line\nAnother\n\nthe last")}},
		events.TurnFinished{Turn: turn, FinishReason: content.Completed})
	text, _, failed := c.Result()
	if want := []string{"One line", "Another", "the last"}; !slices.Equal(lines, want) || failed || !strings.HasSuffix(text, "the last") {
		t.Errorf("%q, %q", lines, text)
	}
}

func TestAnswersOfForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`accept {"decision":"approve"}`:            "{true false } true",
		`accept {"decision":"approve always"}`:     "{true true } true",
		`accept {"decision":"deny","reason":"no"}`: "{false false no} true",
		`decline {}`: "{false false declined} true",
		`cancel {}`:  "{false false } false",
		`accept {}`:  "{false false } false error",
		`accept {"decision":true,"reason":["x", 1]}`: "{false false } false error",
	} {
		action, raw, _ := strings.Cut(text, " ")
		var form map[string]any
		if err := json.Unmarshal([]byte(raw), &form); err != nil {
			t.Fatal(err)
		}
		a, decided, err := AnswerOf(action, form)
		got := fmt.Sprint(a, decided)
		if err != nil {
			got += " error"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	once := FormOf(events.Approval{Tool: "t", RequestKind: loop.KindRetry})
	ever := FormOf(events.Approval{Tool: "t", RequestKind: permission.KindCall})
	if strings.Contains(string(once.Schema), always) || !strings.Contains(string(ever.Schema), always) || !strings.Contains(ever.Message, "every call of t") {
		t.Errorf("%s %s", once.Schema, ever.Schema)
	}
}
