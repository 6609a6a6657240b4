package evidence

import (
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/completeness"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/logtest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
)

// keyed is a world with a key in its directory.
type keyed struct {
	*logtest.World

	key string
}

// version returns a version of the directory, whose key has a revocation.
func (w *keyed) version(n uint64, r *keys.Revocation) *keys.Directory {
	w.Helper()
	return w.Directory(n, keys.Key{Public: w.key, Roles: []keys.Role{keys.Driver}, Name: "node-1", From: 1, Revoked: r})
}

// TestEveryVersionOfTheKeysMustBeTheOneThatWasLogged has falsified directories of keys.
func TestEveryVersionOfTheKeysMustBeTheOneThatWasLogged(t *testing.T) {
	t.Parallel()
	ended := func(at content.Time, size int64, stolen bool) *keys.Revocation {
		r := &keys.Revocation{At: at, Size: size, Stolen: stolen}
		if size > 0 {
			r.Log = logtest.Origin
		}
		return r
	}
	now := content.TimeOf(time.Now()) // when the entries were stored
	late := now.Add(time.Hour)
	for name, tt := range map[string]struct {
		falsify func(w *keyed) (shown *keys.Directory)
		kind    verdict.Kind // "": nothing is wrong
		says    string
	}{
		"control":                {func(*keyed) *keys.Directory { return nil }, "", ""},
		"control: the one shown": {func(w *keyed) *keys.Directory { return w.version(1, nil) }, "", ""},
		"an older one shown": {func(w *keyed) *keys.Directory {
			w.Publish(w.version(2, nil))
			w.List(w.version(2, nil))
			return w.version(1, nil)
		}, verdict.RolledBack, "version 1 of the directory of keys: it was shown to you"},
		"one that no log has shown": {func(w *keyed) *keys.Directory { return w.version(2, nil) }, verdict.Missing, "shown to you, but the log does not have it"},
		"another one shown":         {func(w *keyed) *keys.Directory { return w.version(1, ended(5, 0, true)) }, verdict.Replaced, "another one was shown to you"},
		"one is hidden":             {func(w *keyed) *keys.Directory { w.List(w.version(2, nil)); return nil }, verdict.Missing, "the log has it, but the deployment does not"},
		"two of one version": {func(w *keyed) *keys.Directory {
			w.List(w.version(1, ended(5, 0, true)))
			return nil
		}, verdict.Replaced, "two directories were shown"},
		"one was left out": {func(w *keyed) *keys.Directory {
			w.Publish(w.version(2, nil))
			w.Publish(w.version(3, nil))
			w.List(w.version(3, nil))
			return nil
		}, verdict.Missing, "the log has only later ones"},
		"an earlier one later": {func(w *keyed) *keys.Directory {
			w.Publish(w.version(3, nil))
			w.Publish(w.version(2, nil))
			w.List(w.version(3, nil), w.version(2, nil))
			return nil
		}, verdict.RolledBack, "it was logged after version 3"},
		"control: one that is not logged yet": {func(w *keyed) *keys.Directory {
			w.Publish(w.version(2, ended(5, 0, true)))
			return nil
		}, "", ""},
		"a theft is taken back before it is logged": {func(w *keyed) *keys.Directory {
			w.Publish(w.version(2, ended(5, 0, true)))
			w.Publish(w.version(3, nil))
			w.List(w.version(2, ended(5, 0, true)))
			return nil
		}, verdict.RolledBack, "version 3 of the directory of keys: directory of keys was rolled back: version 3 changes key"},
		"a theft is taken back": {func(w *keyed) *keys.Directory {
			stolen := w.version(2, ended(5, 0, true))
			w.Publish(stolen)
			w.Publish(w.version(3, nil))
			w.List(stolen, w.version(3, nil))
			return nil
		}, verdict.RolledBack, "changes key"},
		"control: retired": {func(w *keyed) *keys.Directory {
			d := w.version(2, ended(late, 0, false))
			w.Publish(d)
			w.List(d)
			return nil
		}, "", ""},
		"control: stolen long ago": {func(w *keyed) *keys.Directory {
			d := w.version(2, ended(5, 1, true))
			w.Publish(d)
			w.List(d)
			return nil
		}, "", ""},
		"a retirement is dated back": {func(w *keyed) *keys.Directory {
			d := w.version(2, ended(5, 0, false))
			w.Publish(d)
			w.List(d)
			return nil
		}, verdict.Forged, "that was backdated"},
		"a size that the log did not have": {func(w *keyed) *keys.Directory {
			d := w.version(2, ended(5, 9, true))
			w.Publish(d)
			w.List(d)
			return nil
		}, verdict.Forged, "at size 9 of the log, which had 3 leaves then"},
		"a leaf that hides the one before": {func(w *keyed) *keys.Directory {
			w.Publish(w.version(2, nil))
			w.Publish(w.version(3, nil))
			w.List(w.version(2, nil))
			w.ListAfter(1, w.version(3, nil))
			return nil
		}, verdict.Forged, "names version 1 as the one before, and that is version 2"},
		"control: another root": {func(w *keyed) *keys.Directory {
			w.AddTexts(headlog.Listing{Cell: "turnlog", Root: "OTHER", Version: 1, Hash: events.HashOf(nil)}.Text())
			return nil
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, err := keys.New()
			natstest.Must(t, err)
			w := &keyed{logtest.New(t, natstest.Connect(t, natstest.Start(t))), node.Public()}
			w.Publish(w.version(1, nil))
			w.List(w.version(1, nil))
			w.Add(w.Leaf("s-1"), w.Leaf("s-2"))
			shown := tt.falsify(w)
			got, err := completeness.Check(t.Context(), w.Cell, w.Policy, nil, completeness.Keys{Root: w.Root.Public(), Shown: shown}, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.kind == "" && (len(got.Faults) > 0 || got.Directory == 0):
				t.Errorf("%+v", got)
			case tt.kind != "" && (len(got.Faults) == 0 || got.Faults[0].Kind != tt.kind || !strings.Contains(got.Faults[0].What, tt.says)):
				t.Errorf("%v, want %s: %s", got.Faults, tt.kind, tt.says)
			}
		})
	}
}
