package evidence

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/audit/completeness"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
)

// logWorld is a log with the head of s-1 among others, its witnesses, and a policy that trusts them.
type logWorld struct {
	tb     testing.TB
	key    note.Signer
	public string
	w1, w2 *headlog.Cosigner
	state  headlog.State
	leaf   headlog.Leaf
	ahead  time.Duration // of the witnesses' clocks
}

func newLogWorld(tb testing.TB) *logWorld {
	tb.Helper()
	w := &logWorld{tb: tb, leaf: headlog.Leaf{Cell: cell, Session: "s-1", Seq: 9, Hash: seal(tb, entries())[8].Hash}}
	w.key, w.public = w.logKey("example.com/log")
	w.w1, w.w2 = w.witness("w1.example"), w.witness("w2.example")
	w.state = w.grow(20)
	return w
}

func (w *logWorld) logKey(name string) (note.Signer, string) {
	w.tb.Helper()
	secret, public, err := note.GenerateKey(nil, name)
	if err != nil {
		w.tb.Fatal(err)
	}
	s, err := note.NewSigner(secret)
	if err != nil {
		w.tb.Fatal(err)
	}
	return s, public
}

func (w *logWorld) witness(name string) *headlog.Cosigner {
	w.tb.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	key, err := note.NewEd25519VerifierKey(name, public)
	if err != nil {
		w.tb.Fatal(err)
	}
	c, err := headlog.NewCosigner(key, func(text []byte) []byte { return ed25519.Sign(private, text) }, func() time.Time { return time.Now().Add(w.ahead) })
	if err != nil {
		w.tb.Fatal(err)
	}
	return c
}

// index is that of the head of s-1.
const index = 7

// grow returns a log with size leaves.
func (w *logWorld) grow(size int) headlog.State {
	w.tb.Helper()
	s := headlog.NewState("example.com/log")
	for i := range size {
		leaf := headlog.Leaf{Cell: cell, Session: "s-2", Seq: uint64(i) + 1, Hash: events.Hash{byte(i + 1)}}
		if i == index {
			leaf = w.leaf
		}
		next, err := s.Append([][]byte{leaf.Text()})
		if err != nil {
			w.tb.Fatal(err)
		}
		s = next
	}
	return s
}

// prove returns the proof of a leaf in a checkpoint that the given keys signed.
func (w *logWorld) prove(at int64, by ...note.Signer) headlog.Proof {
	w.tb.Helper()
	c := w.state.Checkpoint()
	r, err := headlog.NewReader(c.Tree, &w.state.Tree, func(string) ([]byte, error) { return nil, errors.New("no full tile") })
	if err != nil {
		w.tb.Fatal(err)
	}
	p := headlog.Proof{Leaf: w.leaf, Index: at, Checkpoint: w.signed(c.Text(), by...)}
	if p.Hashes, err = r.Prove(at); err != nil {
		w.tb.Fatal(err)
	}
	return p
}

func (w *logWorld) signed(text string, by ...note.Signer) []byte {
	w.tb.Helper()
	out, err := note.Sign(&note.Note{Text: text}, by...)
	if err != nil {
		w.tb.Fatal(err)
	}
	return out
}

// whole is the proof that all signed.
func (w *logWorld) whole() headlog.Proof { return w.prove(index, w.key, w.w1, w.w2) }

// policy trusts the log and both witnesses.
func (w *logWorld) policy() *headlog.Policy {
	w.tb.Helper()
	p, err := headlog.ParsePolicy(fmt.Appendf(nil, "log %s\nwitness one %s\nwitness two %s\ngroup both all one two\nquorum both\n", w.public, w.w1.Key(), w.w2.Key()))
	if err != nil {
		w.tb.Fatal(err)
	}
	return p
}

// check verifies the text of a proof, as a verifier does, and returns the kind of its fault. witnessed says that it
// proves the head of s-1.
func (w *logWorld) check(text []byte) (witnessed bool, kind verdict.Kind) {
	file, err := headlog.ParseFile(text)
	for _, p := range file.Heads {
		var at headlog.Witnessed
		if err == nil {
			at, err = p.Verify(w.policy())
		}
		witnessed = witnessed || err == nil && at.Quorum && p.Leaf == w.leaf
	}
	return witnessed, completeness.KindOf(err)
}

func TestEveryFalsifiedProofIsFound(t *testing.T) {
	t.Parallel()
	edit := func(from, to string) func(*logWorld) []byte {
		return func(w *logWorld) []byte {
			text := w.whole().Text()
			changed := bytes.Replace(text, []byte(from), []byte(to), 1)
			if bytes.Equal(text, changed) {
				t.Errorf("%q is not in the proof\n%s", from, text)
			}
			return changed
		}
	}
	proof := func(change func(w *logWorld, p *headlog.Proof)) func(*logWorld) []byte {
		return func(w *logWorld) []byte {
			p := w.whole()
			change(w, &p)
			return p.Text()
		}
	}
	for name, tt := range map[string]struct {
		text func(w *logWorld) []byte
		kind verdict.Kind // "": none, but it is not witnessed
	}{
		"of another session":    {proof(func(_ *logWorld, p *headlog.Proof) { p.Leaf.Session = "s-2" }), verdict.Tampered},
		"of another leaf":       {proof(func(_ *logWorld, p *headlog.Proof) { p.Leaf.Hash[0] ^= 1 }), verdict.Tampered},
		"of an entry that was":  {proof(func(_ *logWorld, p *headlog.Proof) { p.Leaf.Seq = 8 }), verdict.Tampered},
		"of another cell":       {proof(func(_ *logWorld, p *headlog.Proof) { p.Leaf.Cell = "other" }), verdict.Tampered},
		"another index":         {proof(func(_ *logWorld, p *headlog.Proof) { p.Index = 6 }), verdict.Tampered},
		"an index beyond":       {proof(func(_ *logWorld, p *headlog.Proof) { p.Index = 20 }), verdict.Tampered},
		"a hash less":           {proof(func(_ *logWorld, p *headlog.Proof) { p.Hashes = p.Hashes[1:] }), verdict.Tampered},
		"a hash twice":          {proof(func(_ *logWorld, p *headlog.Proof) { p.Hashes = append(p.Hashes, p.Hashes[0]) }), verdict.Tampered},
		"another hash":          {proof(func(_ *logWorld, p *headlog.Proof) { p.Hashes[2][5] ^= 1 }), verdict.Tampered},
		"hashes in other order": {proof(func(_ *logWorld, p *headlog.Proof) { p.Hashes[0], p.Hashes[1] = p.Hashes[1], p.Hashes[0] }), verdict.Tampered},
		"no checkpoint":         {proof(func(_ *logWorld, p *headlog.Proof) { p.Checkpoint = nil }), verdict.Unreadable},
		"a larger checkpoint": {proof(func(_ *logWorld, p *headlog.Proof) {
			p.Checkpoint = bytes.Replace(p.Checkpoint, []byte("\n20\n"), []byte("\n21\n"), 1)
		}), verdict.Forged},
		"another origin": {proof(func(_ *logWorld, p *headlog.Proof) {
			p.Checkpoint = bytes.Replace(p.Checkpoint, []byte("example.com/log\n"), []byte("example.com/other\n"), 1)
		}), verdict.Forged},
		"another root": {proof(func(w *logWorld, p *headlog.Proof) {
			p.Checkpoint = w.signed(w.grow(21).Checkpoint().Text(), w.key, w.w1, w.w2)
		}), verdict.Tampered},
		"by a log of that name": {proof(func(w *logWorld, p *headlog.Proof) {
			other, _ := w.logKey("example.com/log")
			*p = w.prove(index, other, w.w1, w.w2)
		}), verdict.Foreign},
		"by another log": {proof(func(w *logWorld, p *headlog.Proof) {
			other, _ := w.logKey("example.com/other")
			*p = w.prove(index, other, w.w1, w.w2)
		}), verdict.Foreign},
		"not by the log":         {proof(func(w *logWorld, p *headlog.Proof) { *p = w.prove(index, w.w1, w.w2) }), verdict.Foreign},
		"without a witness":      {proof(func(w *logWorld, p *headlog.Proof) { *p = w.prove(index, w.key, w.w1) }), ""},
		"without witnesses":      {proof(func(w *logWorld, p *headlog.Proof) { *p = w.prove(index, w.key) }), ""},
		"a witness of that name": {proof(func(w *logWorld, p *headlog.Proof) { *p = w.prove(index, w.key, w.w1, w.witness("w2.example")) }), ""},
		"a witness twice":        {proof(func(w *logWorld, p *headlog.Proof) { *p = w.prove(index, w.key, w.w1, w.w1) }), ""},
		"empty":                  {func(*logWorld) []byte { return nil }, verdict.Unreadable},
		"a journal":              {func(w *logWorld) []byte { return []byte(join(export(w.tb, seal(w.tb, entries())))) }, verdict.Unreadable},
		"cut":                    {func(w *logWorld) []byte { return w.whole().Text()[:200] }, verdict.Unreadable},
		"another format":         {edit("c2sp.org/tlog-proof@v1", "c2sp.org/tlog-proof@v2"), verdict.Unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLogWorld(t)
			witnessed, kind := w.check(tt.text(w))
			if witnessed || kind != tt.kind {
				t.Errorf("witnessed %t, %q; want %q", witnessed, kind, tt.kind)
			}
		})
	}
	w := newLogWorld(t)
	if witnessed, kind := w.check(w.whole().Text()); !witnessed || kind != "" {
		t.Errorf("control: witnessed %t, %q\n%s", witnessed, kind, w.whole().Text())
	}
}

// FuzzNoChangedProofIsWitnessed edits a proof at random, including its checkpoint and cosignatures. A proof that is
// still valid must say exactly what the original says, regardless of additional signatures.
func FuzzNoChangedProofIsWitnessed(f *testing.F) {
	w := newLogWorld(f)
	whole := w.whole()
	text, by := whole.Text(), w.policy()
	for seed := range uint64(200) {
		f.Add(seed, byte(seed%3+1))
	}
	f.Fuzz(func(t *testing.T, seed uint64, edits byte) {
		random := rand.New(rand.NewPCG(seed, uint64(edits)))
		changed := bytes.Clone(text)
		for range edits%4 + 1 {
			changed = edited(random, changed)
		}
		file, err := headlog.ParseFile(changed)
		if err != nil {
			return
		}
		for _, p := range file.Heads {
			at, err := p.Verify(by)
			said, _, _ := strings.Cut(string(p.Checkpoint), "\n\n")
			want, _, _ := strings.Cut(string(whole.Checkpoint), "\n\n")
			if err == nil && (p.Leaf != whole.Leaf || p.Index != whole.Index || said != want || len(at.Cosignatures) > 2) {
				t.Errorf("a changed proof verifies:\n%s", changed)
			}
		}
	})
}

// FuzzNoChangedPayloadIsAnchored edits the bytes of an entry at random, and rebuilds the hashes, the views and the
// chain after it, as a writer of journals can.
func FuzzNoChangedPayloadIsAnchored(f *testing.F) {
	records := seal(f, entries())
	for seed := range uint64(300) {
		f.Add(seed, byte(seed%9), byte(seed%3+1))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n, edits byte) {
		random := rand.New(rand.NewPCG(seed, uint64(edits)))
		at := int(n) % len(records)
		payload := bytes.Clone(records[at].Payload)
		for range edits%3 + 1 {
			payload = edited(random, payload)
		}
		v := judgeRecords(t, replaced(t, records, at, payload), records[len(records)-1].Head)
		if v.Exit(verdict.Anchored) == verdict.ExitReached && !bytes.Equal(payload, records[at].Payload) {
			t.Errorf("a changed entry %d is %s: %x", at+1, v.Level, payload)
		}
	})
}
