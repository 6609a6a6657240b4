package evidence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/witness"
)

// shown is what an operator shows to a witness that has cosigned the log with eight leaves.
type shown struct {
	log headlog.State
	old int64  // the size that the proof continues from
	by  string // whose key signs it: "": that of the log; other: another one; none: no key
}

// TestNoWitnessCosignsAnotherHistory has an operator with the key of the log show a different log than before. Without the
// cosignatures of witnesses, no proof of it is valid.
func TestNoWitnessCosignsAnotherHistory(t *testing.T) {
	t.Parallel()
	l := newLogWorld(t)
	other, _ := l.logKey("example.com/log")
	rewritten := func(size int) headlog.State {
		is := *l
		is.leaf.Hash[0] ^= 1
		return is.grow(size)
	}
	forked := l.grow(7)
	for i := range 5 {
		next, err := forked.Append([][]byte{fmt.Appendf(nil, "another %d", i)})
		if err != nil {
			t.Fatal(err)
		}
		forked = next
	}
	for name, tt := range map[string]struct {
		shown
		want error // nil: it is cosigned
		file func(t *testing.T, file string)
	}{
		"the log that grew":                     {shown{l.grow(12), 8, ""}, nil, nil},
		"the same log":                          {shown{l.grow(8), 8, ""}, nil, nil},
		"a rewritten log":                       {shown{rewritten(12), 8, ""}, witness.ErrInconsistent, nil},
		"a rewritten log of the same size":      {shown{rewritten(8), 8, ""}, witness.ErrInconsistent, nil},
		"a rewritten log, as if it were new":    {shown{rewritten(12), 0, ""}, &witness.SizeError{Size: 8}, nil},
		"a fork from before":                    {shown{forked, 8, ""}, witness.ErrInconsistent, nil},
		"a fork, from where they parted":        {shown{forked, 7, ""}, &witness.SizeError{Size: 8}, nil},
		"a log that was rolled back":            {shown{l.grow(5), 5, ""}, &witness.SizeError{Size: 8}, nil},
		"a log that was rolled back, as before": {shown{l.grow(5), 8, ""}, witness.ErrOld, nil},
		"an empty log":                          {shown{headlog.NewState("example.com/log"), 0, ""}, &witness.SizeError{Size: 8}, nil},
		"another log":                           {shown{headlog.NewState("example.com/new"), 0, ""}, witness.ErrUnknown, nil},
		"a log with another key":                {shown{l.grow(12), 8, "other"}, witness.ErrUnsigned, nil},
		"a log without a signature":             {shown{l.grow(12), 8, "none"}, headlog.ErrBadCheckpoint, nil},
		"a witness with an older file": {shown{rewritten(12), 8, ""}, witness.ErrBadState, func(t *testing.T, file string) {
			t.Helper()
			swap(t, file, "\n8\n", "\n5\n")
		}},
		"a witness whose file another signed": {shown{rewritten(12), 8, ""}, witness.ErrBadState, func(t *testing.T, file string) {
			t.Helper()
			swap(t, file, "— w1.example", "— w2.example")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known, err := note.NewVerifier(l.public)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			w, err := witness.Open(dir, l.w1, []note.Verifier{known})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = w.Close() }() // it is gone anyway
			if _, err := w.Add(0, nil, l.signed(l.grow(8).Checkpoint().Text(), l.key)); err != nil {
				t.Fatal(err)
			}
			if tt.file != nil {
				all, err := filepath.Glob(filepath.Join(dir, "*.checkpoint"))
				if err != nil || len(all) != 1 {
					t.Fatal(all, err)
				}
				tt.file(t, all[0])
			}
			by := map[string][]note.Signer{"": {l.key}, "other": {other}}[tt.by]
			_, err = w.Add(tt.old, continuing(t, tt.log, tt.old), l.signed(tt.log.Checkpoint().Text(), by...))
			size, isSize := errors.AsType[*witness.SizeError](tt.want)
			switch got, ok := errors.AsType[*witness.SizeError](err); {
			case isSize && (!ok || *got != *size), !isSize && !errors.Is(err, tt.want):
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// continuing returns the proof that a log extends its earlier size, if there is one.
func continuing(t *testing.T, s headlog.State, old int64) tlog.TreeProof {
	t.Helper()
	at := s.Checkpoint().Tree
	if old > at.N {
		return nil
	}
	r, err := s.Reader(at, func(path string) ([]byte, error) { return nil, errors.New("no " + path) })
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.ProveConsistency(old)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func swap(t *testing.T, file, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(raw), from, to, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
