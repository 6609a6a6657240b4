package stream

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// story is a journal and the fragments that were sent while it was written.
type story struct {
	rand    *rand.Rand
	records []journal.Record
	head    journal.Head
	live    []heard
	turn    int
	differs bool // a recorded reply differs from its fragments
}

// heard is a fragment that arrives after some entries.
type heard struct {
	after uint64 // entries
	ev    events.Event
}

func (st *story) append(evs ...events.Event) {
	_, payload, head, err := journal.Link(st.head, events.Entry{Session: "s", Events: evs})
	if err != nil {
		panic(err)
	}
	head.Guard = head.Seq * 7 // other sessions are between
	e, err := events.Decode(payload)
	if err != nil {
		panic(err)
	}
	st.head = head
	st.records = append(st.records, journal.Record{Head: head, Entry: e})
}

func (st *story) text() string {
	words := []string{"ä", "日本", "🙂", "a", " plain text that goes on ", "\n", "x"}
	var b strings.Builder
	for range st.rand.IntN(8) {
		b.WriteString(words[st.rand.IntN(len(words))])
	}
	return b.String()
}

func (st *story) items() (items []content.Item) {
	for range 1 + st.rand.IntN(2) {
		it := content.NewItem(content.Assistant)
		for range st.rand.IntN(4) {
			switch st.rand.IntN(4) {
			case 0:
				it.Parts = append(it.Parts, content.Part{Kind: content.ReasoningKind, Text: st.text()})
			case 1:
				input, _ := json.Marshal(map[string]string{"p": st.text()})
				it.Parts = append(it.Parts, content.CallPart(content.ToolCall{Name: "look", ProviderID: fmt.Sprint("c", st.rand.IntN(9)), Input: input}))
			case 2:
				it.Parts = append(it.Parts, content.StructuredPart(json.RawMessage(`{"a":1}`)))
			default:
				it.Parts = append(it.Parts, content.TextPart(st.text()))
			}
		}
		items = append(items, it)
	}
	return items
}

// fragments streams a reply: parts begin in order, grow and end in any order, and are cut at any byte.
func (st *story) fragments(c Call, items []content.Item) (out []events.ContentDelta) {
	type open struct {
		part, sent int
		kind       content.PartKind
		text       string
		call       *content.ToolCall
	}
	var all []content.Part
	for _, it := range items {
		all = append(all, it.Parts...)
	}
	var growing []*open
	add := func(d content.Delta, before int) {
		out = append(out, events.ContentDelta{Turn: c.Turn, Round: c.Round, Attempt: c.Attempt, Delta: d, After: before + 1})
	}
	for next := 0; next < len(all) || len(growing) > 0; {
		if next < len(all) && (len(growing) == 0 || st.rand.IntN(4) == 0) {
			p := all[next]
			d := content.Delta{Part: next, Op: content.BeginPart, Kind: p.Kind}
			if p.Call != nil {
				d.Call = &content.ToolCall{Name: p.Call.Name, ProviderID: p.Call.ProviderID}
				if next%2 == 1 { // some models send it as ID
					d.Call = &content.ToolCall{Name: p.Call.Name, ID: content.CallID(p.Call.ProviderID)}
				}
			}
			add(d, 0)
			growing = append(growing, &open{next, 0, p.Kind, textOf(p), p.Call})
			next++
			continue
		}
		i := st.rand.IntN(len(growing))
		g := growing[i]
		whole := g.call != nil && g.sent == 0 && st.rand.IntN(3) == 0 // arguments come with the end only
		if g.sent == len(g.text) || whole {
			add(content.Delta{Part: g.part, Op: content.CommitPart, Kind: g.kind, Call: g.call}, g.sent)
			growing = append(growing[:i], growing[i+1:]...)
			continue
		}
		n := min(1+st.rand.IntN(6), len(g.text)-g.sent)
		add(content.Delta{Part: g.part, Op: content.AppendPart, Kind: g.kind, Text: g.text[g.sent : g.sent+n]}, g.sent)
		g.sent += n
	}
	return out
}

// repeated returns fragments part by part, with the text of a part in one.
func repeated(frags []events.ContentDelta) (all []events.ContentDelta) {
	frags = slices.Clone(frags)
	slices.SortStableFunc(frags, func(a, b events.ContentDelta) int { return a.Delta.Part - b.Delta.Part })
	for _, f := range frags {
		if n := len(all) - 1; n >= 0 && f.Delta.Op == content.AppendPart && all[n].Delta.Op == content.AppendPart && all[n].Delta.Part == f.Delta.Part {
			all[n].Delta.Text += f.Delta.Text
			continue
		}
		all = append(all, f)
	}
	return all
}

// call makes one attempt, with other entries in between.
func (st *story) call(c Call) (replied bool) {
	st.append(events.ModelCallStarted{Turn: c.Turn, Round: c.Round, Attempt: c.Attempt})
	began := st.head.Seq
	items := st.items()
	frags := st.fragments(c, items)
	for range st.rand.IntN(3) {
		st.append(events.InputQueued{Items: []content.Item{content.UserText("and")}})
	}
	outcome := st.rand.IntN(6)
	if outcome < 3 {
		frags = frags[:st.rand.IntN(len(frags)+1)]
	}
	switch outcome {
	case 0:
		st.append(events.ModelCallFailed{Turn: c.Turn, Round: c.Round, Attempt: c.Attempt, Class: content.ClassNetwork})
	case 1: // only the next attempt shows that this one is over
	case 2: // the reply was stopped: it has only its text
		var parts []content.Part
		for _, it := range items {
			for _, p := range it.Parts {
				if p.Call == nil && p.Text != "" {
					parts = append(parts, p)
				}
			}
		}
		st.differs = true
		items, replied = []content.Item{content.NewItem(content.Assistant, parts...)}, true
	default:
		replied = true
	}
	if replied {
		st.append(events.ReplyRecorded{Turn: c.Turn, Round: c.Round, Attempt: c.Attempt, Items: items, FinishReason: content.Completed})
	}
	after := began
	lossy := st.rand.IntN(3) == 0
	for i, f := range frags {
		if st.rand.IntN(12) == 0 {
			for _, f := range repeated(frags[:i]) {
				if !lossy || st.rand.IntN(8) > 0 {
					st.live = append(st.live, heard{after, events.ContentRepeated(f)})
				}
			}
		}
		if lossy && st.rand.IntN(8) == 0 {
			continue
		}
		if st.rand.IntN(60) == 0 {
			f.Delta.Text += "!" // a forged fragment
			st.differs = true
		}
		if st.rand.IntN(90) == 0 {
			f.After = 0 // an earlier release
		}
		for after < st.head.Seq && st.rand.IntN(6) == 0 {
			after++
		}
		early := uint64(0)
		if st.rand.IntN(10) == 0 && len(st.live) > 0 && st.live[len(st.live)-1].after < after {
			early = 1
		}
		after -= early
		st.live = append(st.live, heard{after, f})
	}
	return replied
}

func tell(seed uint64) *story {
	st := &story{rand: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // reproducible
	st.append(events.RunStarted{})
	for range 1 + st.rand.IntN(4) {
		st.turn++
		turn := content.TurnIDFor(st.turn)
		st.append(events.TurnStarted{Turn: turn})
		for round := range 1 + st.rand.IntN(2) {
			for attempt := 1; attempt < 4 && !st.call(Call{turn, round + 1, attempt}); attempt++ {
			}
		}
		st.append(events.TurnFinished{Turn: turn})
	}
	return st
}

// reader checks what one reader receives over all its connections.
type reader struct {
	t      *testing.T
	cursor Cursor
	pieces map[Call][]Piece
	seen   uint64
	offset int
}

func (r *reader) take(ev Event) {
	r.t.Helper()
	switch {
	case ev.Entry != nil:
		if ev.Entry.Seq != r.seen+1 {
			r.t.Fatalf("entry %d after %d", ev.Entry.Seq, r.seen)
		}
		r.seen = ev.Entry.Seq
		r.check(ev.Entry.Entry)
	case ev.Piece != nil:
		r.pieces[ev.Piece.Call] = append(r.pieces[ev.Piece.Call], *ev.Piece)
		if ev.Cursor.Offset <= r.offset && r.cursor.Call == ev.Cursor.Call {
			r.t.Fatalf("piece at %d after %d", ev.Cursor.Offset, r.offset)
		}
	case ev.Void != nil:
		if len(r.pieces[*ev.Void]) == 0 {
			r.t.Fatalf("%v is void and had no pieces", *ev.Void)
		}
		delete(r.pieces, *ev.Void)
	default:
		r.t.Fatalf("unexpected %+v", ev)
	}
	if ev.Cursor.Entry != r.seen {
		r.t.Fatalf("cursor %v after entry %d", ev.Cursor, r.seen)
	}
	if c := ev.Cursor; c.Offset != length(r.pieces[c.Call]) {
		r.t.Fatalf("cursor %v, and the pieces so far have length %d", c, length(r.pieces[c.Call]))
	}
	parsed, err := ParseCursor(ev.Cursor.String())
	if err != nil || parsed != ev.Cursor {
		r.t.Fatalf("cursor %+v is parsed as %+v, %v", ev.Cursor, parsed, err)
	}
	r.cursor, r.offset = ev.Cursor, ev.Cursor.Offset
}

// length is the offset after pieces, in the terms of the package.
func length(all []Piece) (n int) {
	for _, p := range all {
		if p.Op == content.AppendPart {
			n += len(p.Text)
		} else {
			n++
		}
	}
	return n
}

// check compares the pieces with the replies of an entry.
func (r *reader) check(e events.Entry) {
	for _, ev := range e.Events {
		reply, ok := ev.(events.ReplyRecorded)
		if !ok {
			continue
		}
		c := Call{reply.Turn, reply.Round, reply.Attempt}
		var got, want []string
		for _, p := range r.pieces[c] {
			switch p.Op {
			case content.BeginPart:
				got = append(got, fmt.Sprint(p.Part, " ", p.Kind, " ", p.Tool, " ", p.ProviderID, " "))
			case content.AppendPart:
				if strings.ToValidUTF8(p.Text, "") != p.Text {
					r.t.Fatalf("piece %q splits a character", p.Text)
				}
				got[len(got)-1] += p.Text
			case content.CommitPart:
				got[len(got)-1] += " end"
			}
		}
		for _, it := range reply.Items {
			for _, p := range it.Parts {
				call := content.ToolCall{}
				if p.Call != nil {
					call = *p.Call
				}
				want = append(want, fmt.Sprint(len(want), " ", p.Kind, " ", call.Name, " ", call.ProviderID, " ")+textOf(p)+" end")
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			r.t.Fatalf("the pieces of %v are\n%s\nwant\n%s", c, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// follow reads the story to its end, over connections that end anywhere.
func (r *reader) follow(st *story, cuts int) {
	for {
		s, pos := New(r.cursor), r.cursor.Entry
		if cuts > 0 && !st.differs && st.rand.IntN(5) == 0 { // a person wrote the cursor, which has no sum
			s, pos = Replay(Cursor{Entry: r.cursor.Entry, Offset: r.cursor.Offset}), 0
		}
		left := -1
		if cuts > 0 {
			cuts--
			left = st.rand.IntN(25)
		}
		dead := false
		take := func(ev Event) {
			if left == 0 || dead {
				dead = true
				return
			}
			left--
			r.take(ev)
		}
		missed := r.cursor.Entry // fragments before that went to others
		next := 0
		for _, rec := range st.records {
			if rec.Seq > pos {
				s.Entry(rec, take)
			}
			for next < len(st.live) && st.live[next].after <= rec.Seq {
				if st.live[next].after >= missed && st.rand.IntN(20) != 0 || cuts < 0 {
					s.Live(st.live[next].ev, take)
				}
				next++
			}
			if dead {
				break
			}
		}
		if !dead {
			return
		}
	}
}

func run(t *testing.T, seed uint64, cuts int) *reader {
	t.Helper()
	st := tell(seed)
	r := &reader{t: t, pieces: make(map[Call][]Piece)}
	r.follow(st, cuts)
	if r.seen != st.head.Seq {
		t.Fatalf("seed %d: %d entries of %d", seed, r.seen, st.head.Seq)
	}
	return r
}

func TestAReaderReceivesEverythingOnceHoweverOftenItReconnects(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		run(t, seed, int(seed%12))
	}
}

func FuzzAReaderReceivesEverythingOnce(f *testing.F) {
	f.Add(uint64(1), 3)
	f.Fuzz(func(t *testing.T, seed uint64, cuts int) { run(t, seed, min(max(cuts, 0), 200)) })
}

func TestCursorsOfOtherTextsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "1.x", "1.-2", "-1", "1.0.", "1.0.!", "1.2.AA", "1.0.AAAA", "1.2.3.4", "99999999999999999999"} {
		if c, err := ParseCursor(text); err == nil {
			t.Errorf("ParseCursor(%q) = %+v", text, c)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("12.50.q80AAAAAAAAAAQEBAAE")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCursor(text)
		if err != nil {
			return
		}
		if again, err := ParseCursor(c.String()); err != nil || again != c {
			t.Fatalf("%q: %+v became %+v, %v", text, c, again, err)
		}
	})
}

// A reader that joins in the middle of a reply, or misses a fragment, has its text before the reply is recorded.
func TestAReaderCatchesUpWithWhatIsRepeated(t *testing.T) {
	t.Parallel()
	call := Call{content.TurnIDFor(1), 1, 1}
	input := json.RawMessage(`{"p":1}`)
	frags := func(ds ...content.Delta) (all []events.ContentDelta) {
		before := map[int]int{}
		for _, d := range ds {
			all = append(all, events.ContentDelta{Turn: call.Turn, Round: 1, Attempt: 1, Delta: d, After: 1 + before[d.Part]})
			before[d.Part] += len(d.Text)
		}
		return all
	}
	sent := frags(
		content.Delta{Op: content.BeginPart, Kind: content.TextKind},
		content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: "Grü"},
		content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: "ße"},
		content.Delta{Op: content.CommitPart, Kind: content.TextKind},
		content.Delta{Part: 1, Op: content.BeginPart, Kind: content.ToolCallKind, Call: &content.ToolCall{Name: "look"}},
		content.Delta{Part: 1, Op: content.AppendPart, Kind: content.ToolCallKind, Text: `{"p"`},
		content.Delta{Part: 1, Op: content.AppendPart, Kind: content.ToolCallKind, Text: `:1}`},
		content.Delta{Part: 1, Op: content.CommitPart, Kind: content.ToolCallKind, Call: &content.ToolCall{Name: "look", Input: input}},
	)
	for joined := range sent {
		for again := joined + 1; again <= len(sent); again++ {
			st := &story{}
			st.append(events.ModelCallStarted{Turn: call.Turn, Round: 1, Attempt: 1})
			s := New(Cursor{})
			r := &reader{t: t, pieces: map[Call][]Piece{}}
			s.Entry(st.records[0], r.take)
			for i := joined; i < len(sent); i++ {
				if i == again {
					for _, f := range repeated(sent[:i]) {
						s.Live(events.ContentRepeated(f), r.take)
					}
					if got, want := length(r.pieces[call]), length(piecesOf(call, sent[:i])); got != want {
						t.Fatalf("joined after %d, repeated after %d: %d of %d", joined, i, got, want)
					}
				}
				s.Live(sent[i], r.take)
			}
			if got, want := length(r.pieces[call]), length(piecesOf(call, sent)); again < len(sent) && got != want {
				t.Fatalf("joined after %d, repeated after %d, at the end: %d of %d", joined, again, got, want)
			}
			st.append(events.ReplyRecorded{Turn: call.Turn, Round: 1, Attempt: 1, FinishReason: content.Completed, Items: []content.Item{
				content.NewItem(content.Assistant, content.TextPart("Grüße"), content.CallPart(content.ToolCall{Name: "look", Input: input})),
			}})
			s.Entry(st.records[1], r.take)
		}
	}
}

// piecesOf returns the pieces that a reader of all fragments has.
func piecesOf(c Call, frags []events.ContentDelta) (all []Piece) {
	r := newReply(c)
	for _, f := range frags {
		r.fragment(f, func(p Piece) { all = append(all, p) })
	}
	return all
}

// Workers can also publish fragments. False ones only cost time.
func TestFalseFragmentsDoNotStay(t *testing.T) {
	t.Parallel()
	call := Call{content.TurnIDFor(1), 1, 1}
	look := content.ToolCall{Name: "look", ProviderID: "p1", Input: json.RawMessage(`{}`)}
	text := func(kind content.PartKind, op content.DeltaOp, text string) content.Delta {
		return content.Delta{Op: op, Kind: kind, Text: text}
	}
	const r, x = content.ReasoningKind, content.TextKind
	begin := func(kind content.PartKind, c *content.ToolCall) content.Delta {
		return content.Delta{Op: content.BeginPart, Kind: kind, Call: c}
	}
	for name, row := range map[string]struct {
		recorded content.Part
		sent     []content.Delta
		joins    int // fragments before the reader continues from its cursor
	}{
		"the kind of a text":          {content.TextPart("no"), []content.Delta{begin(x, nil), text(r, content.AppendPart, "no"), text(r, content.CommitPart, "")}, 0},
		"of a text that is joined":    {content.TextPart("no"), []content.Delta{begin(x, nil), text(r, content.AppendPart, "no"), text(r, content.CommitPart, "")}, 1},
		"of a part of it":             {content.TextPart("no"), []content.Delta{begin(x, nil), text(r, content.AppendPart, "n")}, 1},
		"a kind with a name in it":    {content.CallPart(look), []content.Delta{begin("tool_call look", nil), begin("tool_call\xfflook\xffp1", nil)}, 0},
		"marks in a name":             {content.CallPart(look), []content.Delta{begin(content.ToolCallKind, &content.ToolCall{Name: "look\xffp1\xff"})}, 0},
		"the provider's ID of a call": {content.CallPart(look), []content.Delta{begin(content.ToolCallKind, &content.ToolCall{Name: "look", ProviderID: "p2"})}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &story{}
			st.append(events.ModelCallStarted{Turn: call.Turn, Round: 1, Attempt: 1})
			st.append(events.ReplyRecorded{Turn: call.Turn, Round: 1, Attempt: 1, FinishReason: content.Completed, Items: []content.Item{
				content.NewItem(content.Assistant, row.recorded),
			}})
			s, got := New(Cursor{}), &reader{t: t, pieces: map[Call][]Piece{}}
			s.Entry(st.records[0], got.take)
			before := 0
			for i, d := range row.sent {
				if row.joins > 0 && i == row.joins {
					s = New(got.cursor)
				}
				s.Live(events.ContentDelta{Turn: call.Turn, Round: 1, Attempt: 1, Delta: d, After: 1 + before}, got.take)
				before += len(d.Text)
			}
			s.Entry(st.records[1], got.take)
			var kinds []string
			for _, p := range got.pieces[call] {
				kinds = append(kinds, string(p.Kind))
			}
			if want := slices.Repeat([]string{string(row.recorded.Kind)}, len(kinds)); !slices.Equal(kinds, want) {
				t.Errorf("pieces of %v, want %v", kinds, want)
			}
		})
	}
}

// Fragments that wait for the beginning of a part or an attempt use bounded memory, no matter which field is large.
func TestFragmentsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	call := Call{content.TurnIDFor(1), 1, 1}
	st := &story{}
	st.append(events.ModelCallStarted{Turn: call.Turn, Round: 1, Attempt: 1})
	large := content.Delta{Part: 1, Op: content.CommitPart, Call: &content.ToolCall{Input: make(json.RawMessage, 256<<10)}}
	for _, attempt := range []int{1, 2} {
		s := New(Cursor{})
		s.Entry(st.records[0], func(Event) {})
		for range 100 {
			s.Live(events.ContentDelta{Turn: call.Turn, Round: 1, Attempt: attempt, Delta: large, After: 1}, func(Event) {})
		}
		if n := len(s.early) + len(s.reply.held); n > 8 {
			t.Errorf("attempt %d: %d fragments of 256 KiB wait", attempt, n)
		}
	}
}
