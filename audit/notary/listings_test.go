package notary

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/heads"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// directory publishes a version of the directory of keys.
func (d *deployment) directory(root *keys.Signer, version, before uint64) headlog.Listing {
	d.t.Helper()
	dir := &keys.Directory{Cell: "turnlog", Version: version, At: content.TimeOf(time.Now())}
	raw, err := dir.Sign(root)
	must(d.t, err)
	must(d.t, signers.Publish(d.t.Context(), d.Cell, version, raw))
	return headlog.ListingOf(dir, root.Public(), before)
}

// keyed returns a notary that logs the directory of a root.
func (d *deployment) keyed(root string) *Notary {
	n := d.notary(d.Cell)
	n.KeysRoot = root
	return n
}

// all returns the leaves of the log, as texts.
func (d *deployment) all() (out []string) {
	d.t.Helper()
	store := heads.Of(d.Cell)
	_, at, err := store.Published(d.t.Context())
	must(d.t, err)
	state, _, err := store.State(d.t.Context())
	must(d.t, err)
	r, err := store.Reader(d.t.Context(), state, at.Tree)
	must(d.t, err)
	must(d.t, r.Leaves(0, func(_ int64, text []byte) error { out = append(out, string(text)); return nil }))
	return out
}

func TestEachVersionOfTheKeysIsLoggedBeforeTheHeadsThatRestOnIt(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		root, err := keys.NewRoot()
		must(t, err)
		stranger, err := keys.NewRoot()
		must(t, err)
		d.directory(stranger, 9, 0)
		first := d.directory(root, 1, 0)
		d.rest(0, 1)
		must(t, d.run(d.keyed(root.Public()), 20*time.Second))
		second := d.directory(root, 2, 1)
		must(t, d.run(d.keyed(root.Public()), 20*time.Second)) // no session has a new entry
		third := d.directory(root, 5, 2)
		d.rest(1, 2)
		must(t, d.run(d.keyed(root.Public()), 20*time.Second))
		var got []headlog.Listing
		var order []bool
		for _, text := range d.all() {
			l, err := headlog.ParseListing([]byte(text))
			if order = append(order, err == nil); err == nil {
				got = append(got, l)
			}
		}
		if want := []headlog.Listing{first, second, third}; !slices.Equal(got, want) || !slices.Equal(order, []bool{true, false, true, true, false}) {
			t.Errorf("the log has %+v, %v", got, order)
		}
		state, _, err := heads.Of(d.Cell).State(t.Context())
		must(t, err)
		if want := []headlog.ListedAt{{Version: 1, Index: 0}, {Version: 2, Index: 2}, {Version: 5, Index: 3}}; !slices.Equal(state.Listed, want) {
			t.Errorf("the state has %v", state.Listed)
		}
		if err := d.run(d.notary(d.Cell), time.Minute); !errors.Is(err, ErrNeedsRoot) {
			t.Errorf("a notary without the root: %v", err)
		}
	})
}

func TestANotaryThatMayStopAtEachWriteLogsEachVersionOnce(t *testing.T) {
	t.Parallel()
	for n := 1; n < 5; n++ {
		for _, after := range []bool{false, true} {
			in(t, func(t *testing.T, d *deployment) {
				root, err := keys.NewRoot()
				must(t, err)
				d.directory(root, 1, 0)
				d.directory(root, 2, 1)
				d.rest(0, 1)
				weak := d.notary(d.connect(cutAt(n, after)))
				weak.KeysRoot = root.Public()
				_ = d.run(weak, 20*time.Second)
				must(t, d.run(d.keyed(root.Public()), 20*time.Second))
				if got := d.all(); len(got) != 3 {
					t.Errorf("cut at %d, %t: %d leaves: %q", n, after, len(got), got)
				}
			})
		}
	}
}

// A process that may write the state of the log can add a version that no root signed.
func TestANotarySignsNoFalseVersionOfTheKeys(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		root, err := keys.NewRoot()
		must(t, err)
		real := d.directory(root, 1, 0)
		d.write("s-0", events.Parked{})
		must(t, d.run(d.keyed(root.Public()), 20*time.Second))
		store := heads.Of(d.Cell)
		state, number, err := store.State(t.Context())
		must(t, err)
		forged := real
		forged.Version, forged.Hash = 2, events.HashOf([]byte("forged"))
		next, err := state.Append([][]byte{forged.Text()})
		must(t, err)
		_, err = store.Commit(t.Context(), next, number)
		must(t, err)
		if err := d.run(d.keyed(root.Public()), time.Minute); !errors.Is(err, ErrFalseLeaf) {
			t.Errorf("Run = %v, want ErrFalseLeaf", err)
		}
	})
}
