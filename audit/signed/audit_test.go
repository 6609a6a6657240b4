package signed_test

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

var began = content.TimeOf(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))

// world is a root, its directory, and the signed journal of a session that two nodes drove.
type world struct {
	t          testing.TB
	root       *keys.Signer
	one, two   *keys.Signer
	ada        *keys.Signer
	dir        keys.Directory
	journal    []journal.Record
	entryDelay time.Duration
}

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newWorld(t testing.TB) *world {
	t.Helper()
	newKey := func() *keys.Signer {
		k, err := keys.New()
		return must(t, k, err)
	}
	root, err := keys.NewRoot()
	w := &world{t: t, root: must(t, root, err), one: newKey(), two: newKey(), ada: newKey(), entryDelay: time.Second}
	w.dir = keys.Directory{Cell: "turnlog", Version: 1, At: began, Keys: []keys.Key{
		{Public: w.one.Public(), Roles: []keys.Role{keys.Driver}, Name: "node-1", From: began},
		{Public: w.two.Public(), Roles: []keys.Role{keys.Driver}, Name: "node-2", From: began},
		{Public: w.ada.Public(), Roles: []keys.Role{keys.Client, keys.Approver}, Name: "ada", From: began},
	}}
	w.journal = w.write(w.one, w.two)
	return w
}

// write returns a journal in which each node claims the session, having checked what it wrote before, and writes three
// more entries.
func (w *world) write(nodes ...*keys.Signer) (out []journal.Record) {
	w.t.Helper()
	var head journal.Head
	last := map[string]uint64{}
	for i, k := range nodes {
		epoch := uint64(i + 1)
		w.extend(&out, &head, k, events.DriverClaimed{Epoch: epoch, Node: "n" + strconv.Itoa(i), Key: k.ID(), Keys: 1, Checked: last[k.ID()]}, epoch)
		if i == 0 {
			w.extend(&out, &head, k, events.RunStarted{Config: events.Config{Model: "demo"}}, epoch)
		}
		for range 3 {
			w.extend(&out, &head, k, events.Warning{Code: "test", Message: "of node " + strconv.Itoa(i)}, epoch)
		}
		last[k.ID()] = head.Seq
	}
	return out
}

func (w *world) extend(all *[]journal.Record, head *journal.Head, k *keys.Signer, ev events.Event, epoch uint64) {
	w.t.Helper()
	e := events.Entry{
		Session: "s-1", Cause: "cause-" + strconv.Itoa(len(*all)+1), At: began.Add(time.Duration(len(*all)) * w.entryDelay), Epoch: epoch, Events: []events.Event{ev},
	}
	e, payload, next, err := journal.Link(*head, e)
	if err != nil {
		w.t.Fatal(err)
	}
	*head = next
	*all = append(*all, journal.Record{Head: next, Entry: e, Payload: payload, Signature: k.Sign(statement.Entry("turnlog", "s-1", next.Seq, next.Hash))})
}

// open signs the directory and opens it.
func (w *world) open() *keys.Directory {
	w.t.Helper()
	raw, err := w.dir.Sign(w.root)
	d, err := keys.Open(must(w.t, raw, err), w.root.Public())
	return must(w.t, d, err)
}

func (w *world) judge(every bool) *verdict.Verdict {
	w.t.Helper()
	a := signed.NewAudit(w.open(), every)
	v, err := audit.Verify(a.Watch(journal.All(w.journal)))
	must(w.t, v, err)
	a.Judge(v)
	return v
}

func TestASignedJournalReachesItsLevel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, every := range []bool{false, true} {
		v := w.judge(every)
		if v.Level != verdict.Signed || v.Through.Seq != 9 || v.Exit(verdict.Signed) != verdict.ExitReached {
			t.Errorf("every %t: level %s through %d, faults %v", every, v.Level, v.Through.Seq, v.Faults)
		}
		want := []verdict.Signer{
			{What: "entries", Name: "node-1", Key: w.one.ID(), Count: 5},
			{What: "entries", Name: "node-2", Key: w.two.ID(), Count: 4},
			{What: "sessions", Count: 1},
		}
		if !slices.Equal(v.Signers, want) {
			t.Errorf("signers = %v, want %v", v.Signers, want)
		}
	}
}

func TestSignaturesSurviveAnExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var file bytes.Buffer
	if err := audit.Export(&file, journal.All(w.journal)); err != nil {
		t.Fatal(err)
	}
	w.journal = nil
	for r, err := range audit.Import(&file) {
		w.journal = append(w.journal, must(t, r, err))
	}
	if v := w.judge(true); v.Level != verdict.Signed {
		t.Errorf("level %s, faults %v", v.Level, v.Faults)
	}
}

// Each falsification keeps the chain valid. The seq is that of the first fault.
func TestFalsificationsAreNamed(t *testing.T) {
	t.Parallel()
	stranger, err := keys.New()
	must(t, stranger, err)
	for name, tt := range map[string]struct {
		change func(w *world)
		every  bool // found only if every signature is checked
		seq    uint64
		want   error
	}{
		"the last signature is stripped": {func(w *world) { w.journal[8].Signature = content.Signature{} }, false, 9, signed.ErrStripped},
		"one in the middle is stripped":  {func(w *world) { w.journal[3].Signature = content.Signature{} }, false, 4, signed.ErrStripped},
		"that of a claim is stripped":    {func(w *world) { w.journal[5].Signature = content.Signature{} }, false, 6, signed.ErrStripped},
		"all are stripped": {func(w *world) {
			for i := range w.journal {
				w.journal[i].Signature = content.Signature{}
			}
		}, false, 1, signed.ErrStripped},
		"the last signature is another entry's": {func(w *world) { w.journal[4].Signature = w.journal[3].Signature }, false, 5, keys.ErrForged},
		"one in the middle is another entry's":  {func(w *world) { w.journal[3].Signature = w.journal[4].Signature }, true, 4, keys.ErrForged},
		"a bit of the last one differs":         {func(w *world) { w.journal[8].Signature.Bytes[7] ^= 1 }, false, 9, keys.ErrForged},
		"it is cut off":                         {func(w *world) { w.journal[8].Signature.Bytes = w.journal[8].Signature.Bytes[:63] }, false, 9, keys.ErrForged},
		"it names another driver's key":         {func(w *world) { w.journal[8].Signature.Key = w.one.ID() }, false, 9, signed.ErrOtherKey},
		"another node signed the last entry": {func(w *world) {
			r := &w.journal[8]
			r.Signature = w.one.Sign(statement.Entry("turnlog", "s-1", r.Seq, r.Hash))
		}, false, 9, signed.ErrOtherKey},
		"it is of another cell": {func(w *world) {
			r := &w.journal[8]
			r.Signature = w.two.Sign(statement.Entry("other", "s-1", r.Seq, r.Hash))
		}, false, 9, keys.ErrForged},
		"it is of another session": {func(w *world) {
			r := &w.journal[8]
			r.Signature = w.two.Sign(statement.Entry("turnlog", "s-2", r.Seq, r.Hash))
		}, false, 9, keys.ErrForged},
		"the whole journal is written again by a stranger": {func(w *world) { w.journal = w.write(stranger) }, false, 5, keys.ErrUnknown},
		"the whole journal is written again by a person":   {func(w *world) { w.journal = w.write(w.ada) }, false, 5, keys.ErrRole},
		"the second epoch is written again by a stranger":  {func(w *world) { w.journal = w.write(w.one, stranger) }, false, 9, keys.ErrUnknown},
		"the key was revoked before it was used": {func(w *world) {
			w.dir.Keys[1].Revoked = &keys.Revocation{At: began}
		}, false, 9, keys.ErrRevoked},
		"the key was revoked in the middle of an epoch": {func(w *world) {
			w.dir.Keys[0].Revoked = &keys.Revocation{At: began.Add(3 * time.Second)}
		}, false, 5, keys.ErrRevoked},
		"the key was used before it was valid": {func(w *world) { w.dir.Keys[0].From = began.Add(time.Hour) }, false, 5, keys.ErrEarly},
		"the directory lost a key":             {func(w *world) { w.dir.Keys = w.dir.Keys[:1] }, false, 9, keys.ErrUnknown},
	} {
		w := newWorld(t)
		tt.change(w)
		if v := w.judge(false); tt.every && v.Level != verdict.Signed {
			t.Errorf("%s: level %s without every signature, faults %v", name, v.Level, v.Faults)
		}
		v := w.judge(tt.every)
		f, _ := v.First()
		if f.Kind != verdict.Forged || f.Seq != tt.seq || v.Level != verdict.None || v.Exit(verdict.Chain) != verdict.ExitFault {
			t.Errorf("%s: level %s, faults %v; want forged at %d", name, v.Level, v.Faults, tt.seq)
		}
		check := signed.Entries{Keys: w.open(), Every: tt.every}
		var faults []*signed.FaultError
		for _, r := range w.journal {
			faults = append(faults, check.Add(r)...)
		}
		if faults = append(faults, check.End()...); len(faults) == 0 || !errors.Is(faults[0], tt.want) {
			t.Errorf("%s: faults = %v, want %v", name, faults, tt.want)
		}
	}
}

func TestAKeyThatWasRevokedLaterIsFine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir.Keys[0].Revoked = &keys.Revocation{At: began.Add(5 * time.Second), Reason: "rotated"}
	if v := w.judge(true); v.Level != verdict.Signed {
		t.Errorf("level %s, faults %v", v.Level, v.Faults)
	}
}

func TestUnsignedEntriesAreFaultsOnlyOnceTheyMustBeSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var none *keys.Signer
	w.journal = w.write(none)
	v := w.judge(true)
	if v.Level != verdict.Chain || v.Exit(verdict.Signed) != verdict.ExitBelow || v.Signers[0].String() != "entries: 5, unsigned" {
		t.Errorf("level %s, signers %v, faults %v", v.Level, v.Signers, v.Faults)
	}
	w.dir.Require(keys.Driver, began.Add(2*time.Second))
	if f, _ := w.judge(true).First(); f.Kind != verdict.Forged || f.Seq != 3 {
		t.Errorf("first fault = %v, want entry 3", f)
	}
}

// An entry of a later format may claim the session with another key. What is before it is judged all the same.
func TestAClaimInALaterFormatIsNotForged(t *testing.T) {
	t.Parallel()
	for _, forged := range []bool{false, true} {
		w := newWorld(t)
		if forged {
			w.journal[4].Signature = w.journal[3].Signature
		}
		prev := w.journal[4].Hash
		for i := range w.journal[5:] {
			r := &w.journal[5+i]
			r.Entry.Prev = prev
			if i == 0 {
				r.Entry.Version = 9
			}
			payload, err := r.Entry.Encode()
			r.Payload = must(t, payload, err)
			r.Hash = events.HashOf(r.Payload)
			r.Entry, r.Err = events.Decode(r.Payload)
			r.Signature, prev = w.two.Sign(statement.Entry("turnlog", "s-1", r.Seq, r.Hash)), r.Hash
		}
		v := w.judge(false)
		first, _ := v.First()
		if want := (verdict.Fault{Kind: verdict.Newer, Seq: 6}); !forged && (first.Kind != want.Kind || first.Seq != want.Seq || v.Exit(verdict.Chain) != verdict.ExitUnjudged) {
			t.Errorf("faults %v, want only %v", v.Faults, want)
		}
		if want := (verdict.Fault{Kind: verdict.Forged, Seq: 5}); forged && (first.Kind != want.Kind || first.Seq != want.Seq) {
			t.Errorf("faults %v, want first %v", v.Faults, want)
		}
	}
}

// A tombstone of a keeper without a key is not a fault; a forged signature on one is.
func TestATombstoneMayBeUnsigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.journal[8].Head
	w.extend(&w.journal, &head, nil, events.SessionDeleted{By: "kim"}, 2)
	if v := w.judge(true); v.State != verdict.Deleted || len(v.Faults) > 0 {
		t.Errorf("faults %v", v.Faults)
	}
	w.journal[9].Signature = w.ada.Sign(statement.Entry("turnlog", "s-1", 10, head.Hash))
	if f, _ := w.judge(false).First(); f.Kind != verdict.Forged || f.Seq != 10 {
		t.Errorf("first fault = %v, want entry 10", f)
	}
}

// A keeper has no key of a driver, so its tombstone has no signature.
func TestWhatWasMovedHereComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	add := func(records []journal.Record) (faults []*signed.FaultError) {
		c := signed.Entries{Keys: w.open()}
		for _, r := range records {
			faults = append(faults, c.Add(r)...)
		}
		return slices.Concat(faults, c.End(), c.Arrived())
	}
	w.journal = w.write(w.one)
	n := len(w.journal)
	for i := range w.journal {
		w.journal[i].Moved, w.journal[i].Stored = true, time.Time{}
	}
	head := w.journal[n-1].Head
	w.extend(&w.journal, &head, w.two, events.DriverClaimed{Epoch: 2, Node: "move", Key: w.two.ID(), MovedFrom: &events.MovedFrom{Cell: "a"}}, 2)
	w.extend(&w.journal, &head, w.two, events.Warning{Code: "x"}, 2)
	if faults := add(w.journal); len(faults) > 0 {
		t.Errorf("the beginning was moved here: %v", faults)
	}
	if faults := add(w.journal[1:]); len(faults) == 0 || !errors.Is(faults[0].Err, signed.ErrLate) {
		t.Errorf("without the first entry: %v", faults)
	}
	if faults := add(w.journal[:n]); len(faults) != 1 || !errors.Is(faults[0].Err, signed.ErrNoClaim) || faults[0].Seq != uint64(n) {
		t.Errorf("without a claim: %v", faults)
	}
	if faults := add(slices.Concat(w.journal[:n-1], w.journal[n+1:])); len(faults) == 0 || !errors.Is(faults[0].Err, signed.ErrNoClaim) {
		t.Errorf("with something else than the claim: %v", faults)
	}
	w.journal[n+1].Moved = true
	if faults := add(w.journal); len(faults) == 0 || !errors.Is(faults[0].Err, signed.ErrLate) || faults[0].Seq != uint64(n)+2 {
		t.Errorf("the last one, too: %v", faults)
	}
}

func TestVersionsOfADirectoryAreThoseOfOneDeployment(t *testing.T) {
	t.Parallel()
	for moved, want := range map[bool]error{true: nil, false: signed.ErrOlder} {
		w := newWorld(t)
		w.journal = w.write(w.one)
		head := w.journal[len(w.journal)-1].Head
		w.extend(&w.journal, &head, w.two, events.DriverClaimed{Epoch: 2, Key: w.two.ID(), Keys: 9}, 2)
		if moved {
			for i := range w.journal {
				w.journal[i].Moved, w.journal[i].Stored = true, time.Time{}
			}
			w.extend(&w.journal, &head, w.two, events.DriverClaimed{Epoch: 3, Key: w.two.ID(), MovedFrom: &events.MovedFrom{Cell: "a"}}, 3)
		}
		w.extend(&w.journal, &head, w.two, events.DriverClaimed{Epoch: 4, Key: w.two.ID(), Keys: 1}, 4)
		c, faults := signed.Entries{Keys: w.open()}, []*signed.FaultError(nil)
		for _, r := range w.journal {
			faults = append(faults, c.Add(r)...)
		}
		faults = append(faults, c.End()...)
		if (len(faults) > 0) != (want != nil) || len(faults) > 0 && !errors.Is(faults[0], want) || moved && c.Version != 1 {
			t.Errorf("moved %t: %v, version %d, want %v", moved, faults, c.Version, want)
		}
	}
}

func TestAnUnsignedTombstoneIsNotSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.journal[len(w.journal)-1].Head
	w.extend(&w.journal, &head, w.one, events.SessionDeleted{By: "kim", Erased: true}, 2)
	for _, unsigned := range []bool{false, true} {
		if unsigned {
			w.journal[len(w.journal)-1].Signature = content.Signature{}
		}
		a, v := signed.NewAudit(w.open(), false), &verdict.Verdict{Session: "s-1", Entries: len(w.journal)}
		for _, err := range a.Watch(journal.All(w.journal)) {
			if err != nil {
				t.Fatal(err)
			}
		}
		v.End(head.Seq, head.Hash, began)
		a.Judge(v)
		want := head.Seq
		if unsigned {
			want--
		}
		doubt := slices.ContainsFunc(v.NotProved, func(s string) bool { return strings.HasPrefix(s, "who: the tombstone is unsigned") })
		if v.Level != verdict.Signed || v.Through.Seq != want || doubt != unsigned {
			t.Errorf("unsigned %t: level %s through entry %d, want %d; %v", unsigned, v.Level, v.Through.Seq, want, v.NotProved)
		}
	}
}
