// Package logtest has a cell with two sessions, a log of their heads, and a directory of keys, for tests of audits. A test
// can write logs that a notary never would.
package logtest

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/heads"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// Origin is the name of the log.
const Origin = "example.com/log"

// World is a cell with the sessions s-1 and s-2, and a log.
type World struct {
	*testing.T

	Cell   *jetstream.Cell
	Policy *headlog.Policy // needs no witness
	Root   *keys.Signer    // of the directory

	key    note.Signer
	state  headlog.State
	number uint64 // of the state
	listed uint64 // the version that was logged last
	heads  map[content.SessionID]journal.Head
}

// New returns a world on a server. Its log is empty.
func New(t *testing.T, nc *nats.Conn) *World {
	t.Helper()
	cell, err := jetstream.Open(nc, "")
	must(t, err)
	must(t, admin.Of(cell).Provision(t.Context(), admin.Config{Memory: true}))
	secret, public, err := note.GenerateKey(nil, Origin)
	must(t, err)
	key, err := note.NewSigner(secret)
	must(t, err)
	policy, err := headlog.ParsePolicy([]byte("log " + public + "\nquorum none\n"))
	must(t, err)
	root, err := keys.NewRoot()
	must(t, err)
	w := &World{T: t, Cell: cell, Policy: policy, Root: root, key: key, state: headlog.NewState(Origin), heads: map[content.SessionID]journal.Head{}}
	for _, s := range []content.SessionID{"s-1", "s-2"} {
		w.Write(s, events.DriverClaimed{Epoch: 1})
		w.Write(s, events.RunStarted{})
	}
	return w
}

// Write appends an entry to a session.
func (w *World) Write(s content.SessionID, ev events.Event) {
	w.Helper()
	e := events.Entry{Session: s, Cause: fmt.Sprint("c", w.heads[s].Seq), At: 1, Epoch: 1, Events: []events.Event{ev}}
	next, err := w.Cell.Journal().Append(w.Context(), w.heads[s], e)
	must(w, err)
	w.heads[s] = next
}

// Leaf returns the leaf of the last entry of a session.
func (w *World) Leaf(s content.SessionID) headlog.Leaf {
	return headlog.Leaf{Cell: "turnlog", Session: s, Seq: w.heads[s].Seq, Hash: w.heads[s].Hash}
}

// Add logs leaves and publishes a checkpoint.
func (w *World) Add(leaves ...headlog.Leaf) {
	w.Helper()
	texts := make([][]byte, len(leaves))
	for i, l := range leaves {
		texts[i] = l.Text()
	}
	index := w.state.Tree.Size
	w.AddTexts(texts...)
	for i, l := range leaves {
		if l.Cell == "turnlog" {
			must(w, heads.Of(w.Cell).Record(w.Context(), index+int64(i), l))
		}
	}
}

// AddTexts is Add for leaves of any kind.
func (w *World) AddTexts(texts ...[]byte) {
	w.Helper()
	next, err := w.state.Append(texts)
	must(w, err)
	next.Listed = w.state.Listed
	for i, text := range texts {
		if l, err := headlog.ParseListing(text); err == nil {
			next.Listed = append(next.Listed, headlog.ListedAt{Version: l.Version, Index: w.state.Tree.Size + int64(i)})
		}
	}
	store := heads.Of(w.Cell)
	w.number, err = store.Commit(w.Context(), next, w.number)
	must(w, err)
	w.state = next
	signed, err := note.Sign(&note.Note{Text: next.Checkpoint().Text()}, w.key)
	must(w, err)
	_, number, err := store.Checkpoint(w.Context())
	must(w, err)
	must(w, store.Publish(w.Context(), signed, number))
}

// Size returns how many leaves the log has.
func (w *World) Size() int64 { return w.state.Tree.Size }

// Directory returns a version of the directory with keys, which is not published.
func (w *World) Directory(version uint64, all ...keys.Key) *keys.Directory {
	w.Helper()
	d := &keys.Directory{Cell: "turnlog", Version: version, At: content.Time(version), Keys: all} //nolint:gosec // small
	_, err := d.Sign(w.Root)                                                                      // which completes it
	must(w, err)
	return d
}

// Publish publishes versions of the directory.
func (w *World) Publish(some ...*keys.Directory) {
	w.Helper()
	for _, d := range some {
		raw, err := d.Sign(w.Root)
		must(w, err)
		must(w, signers.Publish(w.Context(), w.Cell, d.Version, raw))
	}
}

// List logs versions of the directory.
func (w *World) List(some ...*keys.Directory) { w.ListAfter(w.listed, some...) }

// ListAfter is List with leaves that name before as the previous version.
func (w *World) ListAfter(before uint64, some ...*keys.Directory) {
	w.Helper()
	var texts [][]byte
	w.listed = before
	for _, d := range some {
		texts, w.listed = append(texts, headlog.ListingOf(d, w.Root.Public(), w.listed).Text()), d.Version
	}
	w.AddTexts(texts...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
