package stream

import (
	"cmp"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Piece is a fragment of a reply: a part begins, continues, or is complete.
type Piece struct {
	Call
	Part int              `json:"part"` // index of the part in the reply
	Op   content.DeltaOp  `json:"op"`
	Kind content.PartKind `json:"kind"`
	Text string           `json:"text,omitempty"` // of append: text, reasoning or arguments
	Tool string           `json:"tool,omitempty"` // of the begin of a tool call

	ProviderID string `json:"provider_id,omitempty"` // of the begin of a tool call
}

const (
	// maxPiece is the approximate size in bytes of a piece cut from a recorded reply.
	maxPiece = 8 << 10

	// maxHeld and maxHeldPieces bound the fragments that wait for earlier fragments.
	maxHeld       = 1 << 20
	maxHeldPieces = 4096
)

// reply is a reply in flight, as far as the reader has received it.
type reply struct {
	place Cursor           // only Call, Offset, Part, In and Sum
	known bool             // Sum is known
	kind  content.PartKind // of the part at the place; "": it is not known, or no part has begun

	lost bool                  // no fragment counts anymore: the rest comes from the recorded reply
	half string                // the beginning of a character whose end has not arrived
	held []events.ContentDelta // of later parts
	size int                   // of held
}

func newReply(c Call) *reply { return &reply{place: Cursor{Call: c}, known: true} }

// table returns the CRC table of the sums.
func table() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Marks of the beginning and the end of a part in sums. No text in UTF-8 has them.
const (
	markBegin = "\xff"
	markEnd   = "\xfe"
)

// begin, grow and end move the place and return the piece that leads to it.
func (r *reply) begin(kind content.PartKind, call *content.ToolCall) Piece {
	p := Piece{Call: r.place.Call, Part: r.place.Part, Op: content.BeginPart, Kind: kind}
	if call != nil {
		p.Tool, p.ProviderID = call.Name, call.ProviderID
	}
	mark := strings.Join([]string{"", string(kind), p.Tool, p.ProviderID}, markBegin)
	r.place.In, r.place.Offset, r.kind = 1, r.place.Offset+1, kind
	r.place.Sum = crc32.Update(r.place.Sum, table(), []byte(mark))
	return p
}

func (r *reply) grow(text string) Piece {
	r.place.In, r.place.Offset = r.place.In+len(text), r.place.Offset+len(text)
	r.place.Sum = crc32.Update(r.place.Sum, table(), []byte(text))
	return Piece{Call: r.place.Call, Part: r.place.Part, Op: content.AppendPart, Kind: r.kind, Text: text}
}

func (r *reply) end() Piece {
	p := Piece{Call: r.place.Call, Part: r.place.Part, Op: content.CommitPart, Kind: r.kind}
	r.place.Part, r.place.In, r.place.Offset = r.place.Part+1, 0, r.place.Offset+1
	r.place.Sum = crc32.Update(r.place.Sum, table(), []byte(markEnd+string(r.kind))) // a cursor in the part does not have the kind
	r.kind = ""
	return p
}

// textOf returns the whole text of the pieces of a part.
func textOf(p content.Part) string {
	switch {
	case p.Call != nil:
		return string(p.Call.Input)
	case p.Kind == content.TextKind, p.Kind == content.ReasoningKind:
		return p.Text
	}
	return "" // the part is in the entry only
}

// fragment handles a fragment and yields the pieces that now follow. After a gap, it yields nothing until the missing fragments are
// repeated.
func (r *reply) fragment(d events.ContentDelta, yield func(Piece)) {
	switch {
	case r.lost || d.Delta.Part < r.place.Part:
		return
	case d.After == 0:
		r.lose()
	case d.Delta.Part > r.place.Part:
		r.hold(d)
	default:
		part := r.place.Part
		r.take(d.Delta, d.After-1, yield)
		if r.place.Part > part && !r.lost {
			next := r.held
			r.held, r.size = nil, 0
			for _, d := range next {
				r.fragment(d, yield)
			}
		}
	}
}

func (r *reply) lose() { r.lost, r.held, r.size, r.half = true, nil, 0, "" }

// hold keeps a fragment for later. If there are too many, it drops all: they are repeated.
func (r *reply) hold(d events.ContentDelta) {
	r.held, r.size = append(r.held, d), r.size+sizeOf(d)
	if len(r.held) > maxHeldPieces || r.size > maxHeld {
		r.held, r.size = nil, 0
	}
}

// take handles a fragment of the part at the place. before is the number of bytes of the part before the fragment.
func (r *reply) take(d content.Delta, before int, yield func(Piece)) {
	if d.Op == content.BeginPart {
		switch {
		case r.place.In > 0: // the reader has it
		case !named(d):
			r.lose()
		default:
			yield(r.begin(d.Kind, recordedAs(d.Call)))
		}
		return
	}
	have := r.place.In - 1 + len(r.half)
	if r.place.In == 0 || before > have {
		return // a gap
	}
	r.kind = cmp.Or(r.kind, d.Kind)
	switch d.Op {
	case content.BeginPart:
	case content.AppendPart:
		if before+len(d.Text) <= have {
			return // the reader has it
		}
		r.half += d.Text[have-before:]
		whole := wholeRunes(r.half)
		text := r.half[:whole]
		r.half = r.half[whole:]
		switch {
		case !utf8.ValidString(text):
			r.lose() // no model sends this
		case text != "":
			yield(r.grow(text))
		}
	case content.CommitPart:
		rest := r.half
		if d.Call != nil { // it has the arguments in their recorded form
			if len(d.Call.Input) < r.place.In-1 {
				r.lose()
				return
			}
			rest = string(d.Call.Input[r.place.In-1:])
		}
		r.half = ""
		if !utf8.ValidString(rest) {
			r.lose()
			return
		}
		if rest != "" {
			yield(r.grow(rest))
		}
		yield(r.end())
	}
}

// named reports whether the names at the beginning of a part are valid UTF-8, so they cannot be confused with marks.
func named(d content.Delta) bool {
	c := cmp.Or(d.Call, &content.ToolCall{})
	return utf8.ValidString(string(d.Kind)) && utf8.ValidString(c.Name) && utf8.ValidString(c.ProviderID+string(c.ID))
}

// recordedAs returns a call with its recorded provider ID. Some models send that ID as ID instead.
func recordedAs(c *content.ToolCall) *content.ToolCall {
	if c == nil || c.ProviderID != "" {
		return c
	}
	return &content.ToolCall{Name: c.Name, ProviderID: string(c.ID)}
}

// sizeOf returns the size of a fragment. It counts every field, since the sender controls all of them.
func sizeOf(d events.ContentDelta) int {
	n := len(d.Turn) + len(d.Delta.Op) + len(d.Delta.Kind) + len(d.Delta.Text)
	if c := d.Delta.Call; c != nil {
		n += len(c.ID) + len(c.Place) + len(c.Name) + len(c.Input) + len(c.ProviderID)
	}
	return n
}

// wholeRunes returns the length of s without an unfinished character at its end.
func wholeRunes(s string) int {
	for i := len(s) - 1; i >= max(0, len(s)-utf8.UTFMax); i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return i
			}
			break
		}
	}
	return len(s)
}

// rest yields the pieces from the place to the end of the recorded reply. If the pieces yielded before are not the
// beginning of that reply, it returns false and yields nothing.
func (r *reply) rest(items []content.Item, yield func(Piece)) bool {
	again := newReply(r.place.Call)
	met := false
	var pieces []Piece // those after the place
	note := func(p Piece) {
		if met {
			pieces = append(pieces, p)
		}
	}
	// meet records that the place is reached. It returns false if it was reached with different pieces.
	meet := func() bool {
		if met || again.place.Offset < r.place.Offset {
			return true
		}
		if r.known && (again.place.Sum != r.place.Sum || again.kind != cmp.Or(r.kind, again.kind)) {
			return false
		}
		met, r.place, r.known, r.kind = true, again.place, true, again.kind
		return true
	}
	for _, it := range items {
		for _, p := range it.Parts {
			if !meet() {
				return false
			}
			note(again.begin(p.Kind, p.Call))
			for text := textOf(p); text != ""; {
				if !meet() {
					return false
				}
				n := min(len(text), maxPiece)
				if !met {
					n = min(len(text), r.place.Offset-again.place.Offset)
				} else if n < len(text) {
					n = max(1, wholeRunes(text[:n]))
				}
				note(again.grow(text[:n]))
				text = text[n:]
			}
			if !meet() {
				return false
			}
			note(again.end())
		}
	}
	if !meet() || !met {
		return false
	}
	for _, p := range pieces {
		r.advance(p)
		yield(p)
	}
	return true
}

// advance moves the place over a piece.
func (r *reply) advance(p Piece) {
	switch p.Op {
	case content.BeginPart:
		r.begin(p.Kind, toolOf(p))
	case content.AppendPart:
		r.grow(p.Text)
	case content.CommitPart:
		r.end()
	}
}

func toolOf(p Piece) *content.ToolCall {
	if p.Kind != content.ToolCallKind {
		return nil
	}
	return &content.ToolCall{Name: p.Tool, ProviderID: p.ProviderID}
}
