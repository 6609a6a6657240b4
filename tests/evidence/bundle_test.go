package evidence

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/bundle"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/logtest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/heads"
)

// world has a directory with a key that signs sessions, and one that does not.
type world struct {
	*logtest.World

	signs, other string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: logtest.New(t, natstest.Connect(t, natstest.Start(t)))}
	for _, of := range []*string{&w.signs, &w.other} {
		k, err := keys.New()
		natstest.Must(t, err)
		*of = k.Public()
	}
	return w
}

// version publishes and logs a version of the directory, with the revocations of its keys.
func (w *world) version(n uint64, signs, other *keys.Revocation) {
	w.Helper()
	d := w.Directory(n,
		keys.Key{Public: w.signs, Roles: []keys.Role{keys.Driver}, Name: "node-1", From: 1, Revoked: signs},
		keys.Key{Public: w.other, Roles: []keys.Role{keys.Driver}, Name: "node-2", From: 1, Revoked: other})
	w.Publish(d)
	w.List(d)
}

// head writes to s-1 and logs it.
func (w *world) head() {
	w.Helper()
	w.Write("s-1", events.Warning{Code: "x"})
	w.Add(w.Leaf("s-1"))
}

// of returns the file of s-1, after it was written, read and verified.
func (w *world) of() headlog.File {
	w.Helper()
	p, err := heads.Of(w.Cell).Prove(w.Context(), "s-1")
	natstest.Must(w, err)
	by := bundle.Signers{}
	for _, err := range by.Watch(w.records) {
		natstest.Must(w, err)
	}
	f, err := bundle.Of(w.Context(), w.Cell, p, by)
	natstest.Must(w, err)
	f, err = headlog.ParseFile(f.Text())
	natstest.Must(w, err)
	for _, p := range f.Heads {
		_, err := p.Verify(w.Policy)
		natstest.Must(w, err)
	}
	for _, p := range f.Listed {
		_, err := p.Verify(w.Policy)
		natstest.Must(w, err)
		_, err = p.Open(w.Root.Public())
		natstest.Must(w, err)
	}
	return f
}

// records is a journal that w.signs has signed.
func (w *world) records(yield func(journal.Record, error) bool) {
	id := keys.Key{Public: w.signs}.ID()
	yield(journal.Record{Signature: content.Signature{Key: id}}, nil)
}

// TestAFileHasTheVersionsAndHeadsThatItsVerifierNeeds names the entries and the versions of the file of s-1.
func TestAFileHasTheVersionsAndHeadsThatItsVerifierNeeds(t *testing.T) {
	t.Parallel()
	stolen := func(size int64) *keys.Revocation {
		return &keys.Revocation{At: 5, Stolen: true, Log: logtest.Origin, Size: size}
	}
	retired := &keys.Revocation{At: 5}
	for name, tt := range map[string]struct {
		log  func(w *world)
		want string
	}{
		"no directory was logged":                      {func(w *world) { w.head() }, "entries 3, versions"},
		"the newest version is that of the head":       {func(w *world) { w.version(1, nil, nil); w.head() }, "entries 3, versions 1"},
		"the head was logged before the first version": {func(w *world) { w.head(); w.version(1, nil, nil) }, "entries 3, versions 1"},
		"versions in between are left out": {func(w *world) {
			w.version(1, nil, nil)
			w.version(2, nil, nil)
			w.head()
			w.version(3, nil, nil)
			w.version(4, nil, nil)
		}, "entries 3, versions 2 4"},
		"another key was stolen": {func(w *world) {
			w.version(1, nil, nil)
			w.head()
			w.version(2, nil, stolen(1))
			w.head()
			w.version(3, nil, stolen(1))
		}, "entries 4, versions 2 3"},
		"a key was retired between two heads": {func(w *world) {
			w.version(1, nil, nil)
			w.head()
			w.version(2, retired, nil)
			w.head()
			w.version(3, retired, nil)
		}, "entries 4 3, versions 1 2 3"},
		"a key was retired after the head": {func(w *world) {
			w.version(1, nil, nil)
			w.head()
			w.version(2, retired, nil)
			w.version(3, retired, nil)
		}, "entries 3, versions 1 2 3"},
		"a key was stolen, which was found later": {func(w *world) {
			w.version(1, nil, nil) // leaf 0
			w.head()               // 1
			w.head()               // 2
			w.version(2, nil, nil) // 3
			w.head()               // 4
			w.version(3, stolen(2), nil)
			w.head()
		}, "entries 6 3, versions 1 2 3"},
		"a key was stolen before the session began": {func(w *world) {
			w.version(1, nil, nil)
			w.head()
			w.version(2, stolen(1), nil)
			w.head()
		}, "entries 4, versions 1 2"},
		"a key was stolen by the size of another log": {func(w *world) {
			w.version(1, nil, nil)
			w.head()
			w.version(2, &keys.Revocation{At: 5, Stolen: true, Log: "example.com/other", Size: 2}, nil)
			w.head()
		}, "entries 4, versions 1 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.log(w)
			f := w.of()
			var got strings.Builder
			fmt.Fprint(&got, "entries")
			for _, p := range f.Heads {
				fmt.Fprint(&got, " ", p.Leaf.Seq)
			}
			fmt.Fprint(&got, ", versions")
			for _, p := range f.Listed {
				fmt.Fprint(&got, " ", p.Version)
			}
			if got.String() != tt.want {
				t.Errorf("%s, want %s", got.String(), tt.want)
			}
		})
	}
}

func TestAFileIsNotMadeWithAVersionThatIsHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.version(1, nil, nil)
	w.List(w.Directory(2))
	w.head()
	p, err := heads.Of(w.Cell).Prove(t.Context(), "s-1")
	natstest.Must(t, err)
	if _, err := bundle.Of(t.Context(), w.Cell, p, nil); !errors.Is(err, bundle.ErrHidden) || !strings.HasSuffix(err.Error(), "version 2") {
		t.Errorf("Of = %v, want ErrHidden for version 2", err)
	}
}

// TestSignersAreAllWhoSigned has a journal whose entries, commands and results have other signers.
func TestSignersAreAllWhoSigned(t *testing.T) {
	t.Parallel()
	by, broken := bundle.Signers{}, errors.New("broken")
	records := []journal.Record{
		{Signature: content.Signature{Key: "driver"}, Entry: events.Entry{Events: []events.Event{
			events.CommandSigned{Signature: content.Signature{Key: "user"}},
			events.ToolResultReceived{Signature: &content.Signature{Key: "worker"}},
			events.ToolResultReceived{},
		}}},
		{},
	}
	seen := 0
	for _, err := range by.Watch(func(yield func(journal.Record, error) bool) {
		_ = yield(records[0], nil) && yield(records[1], broken)
	}) {
		if seen++; seen == 2 && !errors.Is(err, broken) {
			t.Errorf("the second record has the error %v", err)
		}
	}
	for _, want := range []string{"driver", "user", "worker"} {
		if !by[want] {
			t.Errorf("%s is missing in %v", want, by)
		}
	}
	if seen != 2 {
		t.Errorf("%d records", seen)
	}
}
