package signed_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Entries of node-1 are 1 to 5, 10 to 13 and 18 to 21, those of node-2 are 6 to 9 and 14 to 17.
func alternating(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.journal = w.write(w.one, w.two, w.one, w.two, w.one)
	return w
}

// rewrite changes the claims of a journal, and has its drivers sign it again.
func (w *world) rewrite(change func(seq uint64, c *events.DriverClaimed)) {
	w.t.Helper()
	var head journal.Head
	by := w.one
	for i, r := range w.journal {
		if c, ok := r.Entry.Events[0].(events.DriverClaimed); ok {
			if by = w.one; c.Key == w.two.ID() {
				by = w.two
			}
			change(r.Seq, &c)
			r.Entry.Events[0] = c
		}
		e, payload, next, err := journal.Link(head, r.Entry)
		if err != nil {
			w.t.Fatal(err)
		}
		head = next
		w.journal[i] = journal.Record{Head: next, Entry: e, Payload: payload, Signature: by.Sign(statement.Entry("turnlog", "s-1", next.Seq, next.Hash))}
	}
}

// The last signature of a key covers its earlier epochs only if their claims say so, in entries that it signed, and no
// thief had the key.
func TestTheLastSignatureOfAKeyCoversItsEpochs(t *testing.T) {
	t.Parallel()
	spoil := func(seqs ...int) func(*world) {
		return func(w *world) {
			for _, seq := range seqs {
				w.journal[seq-1].Signature.Bytes[9] ^= 1
			}
		}
	}
	for name, tt := range map[string]struct {
		change func(*world)
		want   []uint64 // the entries with faults; none: the level is reached
		is     error
	}{
		"all are good":                    {change: func(*world) {}},
		"one that is covered is wrong":    {change: spoil(5)},
		"the one that covers it is wrong": {spoil(21), []uint64{21}, keys.ErrForged},
		"so are those that it covers":     {spoil(5, 13, 21), []uint64{5, 13, 21}, keys.ErrForged},
		"one of another key is wrong":     {spoil(5, 17), []uint64{17}, keys.ErrForged},
		"all of another key are wrong":    {spoil(9, 17), []uint64{9, 17}, keys.ErrForged},
		"a driver checked nothing before": {func(w *world) { w.rewrite(unchecked(10)); spoil(5)(w) }, []uint64{5}, keys.ErrForged},
		"it checked the one before alone": {func(w *world) { w.rewrite(unchecked(10)); spoil(13)(w) }, nil, nil},
		"another driver checked nothing":  {func(w *world) { w.rewrite(unchecked(14)); spoil(5, 9)(w) }, []uint64{9}, keys.ErrForged},
		"the key was stolen later":        {func(w *world) { w.revoke(time.Hour, true); spoil(5)(w) }, []uint64{5}, keys.ErrForged},
		"the key was retired later":       {func(w *world) { w.revoke(time.Hour, false); spoil(5)(w) }, nil, nil},
		"the key was retired before":      {func(w *world) { w.revoke(11*time.Second, false) }, []uint64{13, 21}, keys.ErrRevoked},
		"the key was not yet valid at first": {func(w *world) {
			w.entryDelay = time.Minute
			w.journal = w.write(w.one, w.two, w.one, w.two, w.one)
			w.dir.Keys[0].From = began.Add(11 * time.Minute)
		}, []uint64{5}, keys.ErrEarly},
	} {
		w := alternating(t)
		tt.change(w)
		check := signed.Entries{Keys: w.open()}
		var faults []*signed.FaultError
		for _, r := range w.journal {
			faults = append(faults, check.Add(r)...)
		}
		var got []uint64
		for _, f := range append(faults, check.End()...) {
			if got = append(got, f.Seq); !errors.Is(f, tt.is) {
				t.Errorf("%s: fault = %v, want %v", name, f, tt.is)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: faults at %v, want %v", name, got, tt.want)
		}
		if v := w.judge(false); (v.Level == verdict.Signed) != (len(tt.want) == 0) {
			t.Errorf("%s: level %s, faults %v", name, v.Level, v.Faults)
		}
	}
}

func unchecked(seq uint64) func(uint64, *events.DriverClaimed) {
	return func(at uint64, c *events.DriverClaimed) {
		if at == seq {
			c.Checked = 0
		}
	}
}

func (w *world) revoke(after time.Duration, stolen bool) {
	w.dir.Keys[0].Revoked = &keys.Revocation{At: began.Add(after), Stolen: stolen}
}

// If a stranger writes entries in the name of a key, a later signature of that key does not cover them: the node that
// holds the key checks the journal before it claims the session.
func TestAForgedEpochIsNotChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.journal = w.write(w.one, w.two, w.one)
	w.journal[12].Signature.Bytes[9] ^= 1
	check := signed.Entries{Keys: w.open()}
	for _, r := range w.journal {
		check.Add(r)
	}
	if faults := check.End(); len(faults) != 1 || check.Checked(w.one.ID()) != 0 || check.Checked(w.two.ID()) != 9 {
		t.Errorf("faults %v, checked %d and %d; want none of node-1, and entry 9 of node-2", faults, check.Checked(w.one.ID()), check.Checked(w.two.ID()))
	}
}

// Without any key, a claim is forged that names another entry.
func TestAClaimNamesTheLastEntryOfItsKey(t *testing.T) {
	t.Parallel()
	for checked, forged := range map[uint64]bool{0: false, 4: true, 5: false, 6: true, 9: true, 10: true, 99: true} {
		w := alternating(t)
		w.rewrite(func(seq uint64, c *events.DriverClaimed) {
			if seq == 10 {
				c.Checked = checked
			}
		})
		f, found := w.judge(true).First()
		if found != forged || forged && (f.Kind != verdict.Forged || f.Seq != 10) {
			t.Errorf("entry 10 says that entry %d was checked: %v, want forged %t", checked, f, forged)
		}
	}
}

// A session that is driven for years by the same few nodes, and one that names unknown keys, need no more memory the longer they are.
func TestWhatIsNotCheckedYetIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := make([]*keys.Signer, 3*signed.MaxCovered)
	for i := range nodes {
		nodes[i] = w.one
	}
	w.journal = w.write(nodes...)
	check := signed.Entries{Keys: w.open()}
	for _, r := range w.journal {
		if faults := check.Add(r); len(faults) > 0 {
			t.Fatal(faults)
		}
		if n := check.Waiting(); n > signed.MaxCovered+1 {
			t.Fatalf("after entry %d, %d signatures wait", r.Seq, n)
		}
	}
	for i := range nodes {
		k, err := keys.New()
		nodes[i] = must(t, k, err)
	}
	check = signed.Entries{Keys: w.open()}
	faults := 0
	for _, r := range w.write(nodes...) {
		faults += len(check.Add(r))
		if n := check.Waiting(); n > 1 {
			t.Fatalf("after entry %d, %d signatures wait", r.Seq, n)
		}
	}
	if faults += len(check.End()); faults != len(nodes) {
		t.Errorf("%d faults, want %d", faults, len(nodes))
	}
}
