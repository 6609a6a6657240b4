// Package held encodes lists of the run tokens that a node holds. A node has thousands, and each list must
// fit into one message.
package held

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Token is a run token that a node holds.
type Token struct {
	Session content.SessionID `msgpack:"s"`
	Reply   string            `msgpack:"r"`
}

// Delivery orders the holders of a token: a later holder has a higher number. It is 0 for an unknown form.
func (t Token) Delivery() uint64 {
	_, _, delivery := t.parse()
	return delivery
}

// parse splits a reply subject into the part that all tokens of a connection share and the numbers that the
// server reads: the token's sequence in its stream, and the delivery.
func (t Token) parse() (head string, seq, delivery uint64) {
	const oldForm, newForm = 9, 11 // tokens; the new form also has a domain and a hash
	tokens := strings.Split(t.Reply, ".")
	at := 4
	switch {
	case len(tokens) >= newForm:
		at = 6
	case len(tokens) != oldForm:
		return "", 0, 0
	}
	seq, err := strconv.ParseUint(tokens[at+1], 10, 64)
	if err == nil {
		delivery, err = strconv.ParseUint(tokens[at+2], 10, 64)
	}
	if err != nil {
		return "", 0, 0
	}
	return strings.Join(tokens[:at], ".") + ".", seq, delivery
}

// Record is a node's record.
type Record struct {
	Node     string       `msgpack:"n"`
	Held     []Token      `msgpack:"h"`
	At       content.Time `msgpack:"a,omitempty"` // by the node's clock; zero in records of an earlier release
	Scripted bool         `msgpack:"s,omitempty"`
	Process  string       `msgpack:"p,omitempty"`
	Release  string       `msgpack:"r,omitempty"`
	Appends  Appends      `msgpack:"w"`
	SealKeys []string     `msgpack:"k"`
}

// Appends holds how long it took to record entries.
type Appends struct {
	Count   int           `msgpack:"n"`
	Mean    time.Duration `msgpack:"m"`
	Slowest time.Duration `msgpack:"s"`
}

// And combines two Appends.
func (a Appends) And(b Appends) Appends {
	if b.Count == 0 {
		return a
	}
	n := a.Count + b.Count
	mean := (float64(a.Mean)*float64(a.Count) + float64(b.Mean)*float64(b.Count)) / float64(n)
	return Appends{n, time.Duration(mean), max(a.Slowest, b.Slowest)}
}

// Abbreviate returns the tokens without a prefix of their reply subjects.
func Abbreviate(tokens []Token, prefix string) []Token {
	out := make([]Token, len(tokens))
	for i, t := range tokens {
		out[i] = Token{Session: t.Session, Reply: strings.TrimPrefix(t.Reply, prefix)}
	}
	return out
}

// Expand reverses Abbreviate, in place.
func Expand(tokens []Token, prefix string) {
	for i, t := range tokens {
		if !strings.HasPrefix(t.Reply, api.AckPrefix) {
			tokens[i].Reply = prefix + t.Reply
		}
	}
}

// MaxAnswer is how many tokens fit into the answer to a probe.
const MaxAnswer = 4096

// Encode returns the answer to a probe. It is empty if there are no tokens or they cannot be encoded; it
// still shows that the node is alive.
func Encode(tokens []Token, prefix string) (answer []byte) {
	if len(tokens) > 0 {
		answer, _ = wire.Marshal(Abbreviate(tokens[:min(len(tokens), MaxAnswer)], prefix), wire.Command)
	}
	return answer
}

// Decode reverses Encode. A damaged answer has no tokens.
func Decode(answer []byte, prefix string) (tokens []Token) {
	if len(answer) == 0 || wire.Unmarshal(answer, wire.Command, &tokens) != nil {
		return nil
	}
	Expand(tokens, prefix)
	return tokens
}

// List lists the tokens of a process, with what the server needs to know of each.
type List struct {
	Process string `msgpack:"p"`
	Head    string `msgpack:"r"` // the common start of all reply subjects
	Lines   string `msgpack:"t"` // for each: session, sequence, delivery
}

// NewList returns a list of the first tokens, up to about most bytes, and those tokens.
func NewList(process string, tokens []Token, most int) (l List, named []Token) {
	l.Process = process
	var lines strings.Builder
	for _, t := range tokens {
		head, seq, delivery := t.parse()
		if l.Head == "" {
			l.Head = head
		}
		if head != "" && head == l.Head && lines.Len() < most {
			fmt.Fprintln(&lines, t.Session, seq, delivery)
			named = append(named, t)
		}
	}
	l.Lines = lines.String()
	return l, named
}

// Tokens returns the tokens of a list. Their reply subjects differ from the original ones, but mean the
// same to the server.
func (l List) Tokens() (out []Token) {
	for line := range strings.Lines(l.Lines) {
		f := strings.Fields(line)
		if len(f) == 3 && content.IsToken(f[0]) {
			out = append(out, Token{Session: content.SessionID(f[0]), Reply: l.Head + "1." + f[1] + "." + f[2] + ".0.0"})
		}
	}
	return out
}
