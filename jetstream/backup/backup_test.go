package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	turnlog "github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/listing"
	"github.com/turnlog/turnlog/jetstream/seals"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	natstest.Must(tb, err)
}

// server starts a server whose streams are on disk.
func server(tb testing.TB) *nats.Conn {
	tb.Helper()
	return natstest.Connect(tb, natstest.Start(tb, embedded.WithStore(tb.TempDir())))
}

func open(tb testing.TB, nc *nats.Conn) *turnlog.Cell {
	tb.Helper()
	c, err := turnlog.Open(nc, "")
	must(tb, err)
	return c
}

func provisioned(tb testing.TB) *turnlog.Cell {
	tb.Helper()
	c := open(tb, server(tb))
	must(tb, admin.Of(c).Provision(tb.Context(), admin.Config{Queues: []admin.QueueConfig{{Name: "gpu", Concurrency: 7}}}))
	return c
}

// write appends entries to a session, each with one of the events; the first one is a claim.
func write(tb testing.TB, c *turnlog.Cell, s content.SessionID, evs ...events.Event) journal.Head {
	tb.Helper()
	head, epoch := journal.Head{}, uint64(0)
	last, err := c.Journal().Last(tb.Context(), s)
	if err == nil {
		head, epoch = last.Head, last.Entry.Epoch
	}
	for i, ev := range evs {
		e := events.Entry{Session: s, Cause: fmt.Sprintf("cause-%d-%d", head.Seq, i), At: content.TimeOf(time.Now()), Events: []events.Event{ev}}
		if claim, ok := ev.(events.DriverClaimed); ok {
			epoch = claim.Epoch
		}
		e.Epoch = epoch
		head, err = c.Journal().Append(tb.Context(), head, e)
		must(tb, err)
	}
	return head
}

func claim(epoch uint64) events.Event { return events.DriverClaimed{Epoch: epoch, Node: "node-1"} }

func text(s string) events.Event { return events.Warning{Code: "said", Message: s} }

func create(tb testing.TB, c *turnlog.Cell) (string, *Manifest) {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "backup")
	m, err := Create(tb.Context(), c, dir, "test")
	must(tb, err)
	return dir, m
}

func restoreInto(tb testing.TB, c *turnlog.Cell, dir string, known ...Head) *Report {
	tb.Helper()
	r, err := Restore(tb.Context(), c, dir, Options{Known: known})
	must(tb, err)
	return r
}

func entries(tb testing.TB, c *turnlog.Cell, s content.SessionID) (out []journal.Record) {
	tb.Helper()
	for rec, err := range c.Journal().Read(tb.Context(), s, 0) {
		must(tb, err)
		out = append(out, rec)
	}
	return out
}

func tokens(tb testing.TB, c *turnlog.Cell) (out []string) {
	tb.Helper()
	n := layout.New(c.Namespace())
	all, err := api.New(c.Conn()).Subjects(tb.Context(), n.RunStream(), n.Run(layout.AllSessions))
	must(tb, err)
	for s := range all {
		out = append(out, string(n.SessionOf(s)))
	}
	slices.Sort(out)
	return out
}

func TestARestoredCellHasTheSameJournalsAndSaysSo(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	big := strings.Repeat("payload that is a blob ", 8000)
	write(t, old, "rests", claim(1), text(big), events.Parked{})
	write(t, old, "works", claim(1), text("hello"))
	write(t, old, "waits", claim(3), events.Parked{Timer: true})
	n := layout.New("turnlog")
	sent, err := api.New(old.Conn()).Publish(t.Context(), &nats.Msg{Subject: n.Cmd("rests", events.LaneAsk), Data: []byte("a command")})
	must(t, err)
	_, err = listing.Of(old).Add(t.Context(), []byte("a list of sessions, which has entries that will be lost"))
	must(t, err)
	dir, m := create(t, old)
	checked, err := Check(t.Context(), dir)
	must(t, err)
	if checked.Sessions != 3 || checked.Entries != 7 || len(checked.Missing) > 0 {
		t.Errorf("checked %d sessions, %d entries, missing %v; want 3, 7, none", checked.Sessions, checked.Entries, checked.Missing)
	}
	lost := write(t, old, "works", text("after the backup"))
	write(t, old, "later", claim(1))
	cursor, err := old.Journal().End(t.Context(), turnlog.AllSessions) // of an observer, at an entry that will be lost
	must(t, err)

	cell := open(t, server(t))
	known := []Head{{Session: "works", Seq: lost.Seq}, {Session: "later", Seq: 1}, {Session: "rests", Seq: 3}}
	report := restoreInto(t, cell, dir, known...)
	if want := []Loss{{"later", 0, 1}, {"works", 2, 3}}; !slices.Equal(report.Lost, want) {
		t.Errorf("lost %v, want %v", report.Lost, want)
	}
	if report.Sessions != 3 || report.Woken != 2 || len(report.Unmarked) > 0 {
		t.Errorf("report: %+v", report)
	}
	if got, want := tokens(t, cell), []string{"waits", "works"}; !slices.Equal(got, want) {
		t.Errorf("woken: %v, want %v", got, want)
	}
	for s, want := range map[content.SessionID]struct {
		entries int
		epoch   uint64
		parked  bool
	}{"rests": {3, 2, true}, "works": {2, 2, false}, "waits": {2, 4, false}} {
		before, after := entries(t, old, s), entries(t, cell, s)
		if len(after) != want.entries+1 {
			t.Fatalf("%s has %d entries, want %d", s, len(after), want.entries+1)
		}
		for i, rec := range before[:want.entries] {
			if after[i].Hash != rec.Hash || after[i].Guard != rec.Guard || !after[i].Stored.Equal(rec.Stored) {
				t.Errorf("%s, entry %d: %+v, want %+v", s, i+1, after[i].Head, rec.Head)
			}
		}
		last := after[want.entries]
		by := events.RestoredOf(last.Entry)
		if by == nil || by.Backup != m.ID || last.Entry.Epoch != want.epoch || last.Guard <= lost.Guard+ahead/2 {
			t.Errorf("%s ends with %+v of epoch %d at %d", s, last.Entry.Events, last.Entry.Epoch, last.Guard)
		}
		if kinds := last.Entry.Kinds(); (kinds[len(kinds)-1] == events.KindParked) != want.parked {
			t.Errorf("%s ends with %v", s, kinds)
		}
	}
	got, err := api.New(cell.Conn()).Last(t.Context(), n.InboxStream(), n.Cmd("rests", events.LaneAsk))
	if err != nil || got.Seq != sent || string(got.Data) != "a command" {
		t.Errorf("the command: %+v, %v", got, err)
	}
	for p, err := range listing.Of(cell).After(t.Context(), 0) {
		t.Errorf("page %+v, %v", p, err)
	}
	restores, err := Restores(t.Context(), cell)
	if err != nil || len(restores) != 1 || restores[0].Backup != m.ID {
		t.Errorf("restores: %+v, %v", restores, err)
	}
	for _, s := range n.Streams() {
		end, err := api.New(cell.Conn()).End(t.Context(), s.Config.Name)
		if err != nil || end.Last < ahead {
			t.Errorf("%s goes on after %d: %v", s.Name, end.Last, err)
		}
	}
	must(t, admin.Of(cell).Provision(t.Context(), admin.Config{Queues: []admin.QueueConfig{{Name: "gpu", Concurrency: 7}}}))

	// An observer goes on with the entries of the restore.
	seen := 0
	for rec, err := range cell.Journal().Observe(t.Context(), turnlog.AllSessions, cursor) {
		must(t, err)
		if events.RestoredOf(rec.Entry) == nil {
			t.Errorf("the observer sees %+v", rec.Entry)
		}
		if seen++; seen == 3 {
			break
		}
	}

	// A driver of the lost cell is refused, wherever its last entry was.
	if _, err := cell.Journal().Append(t.Context(), lost, events.Entry{Session: "works", Epoch: 1, Events: []events.Event{text("stale")}}); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("a driver of the lost cell: %v", err)
	}
}

func TestARestoredCellIsBackedUpAndRestoredAgain(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	write(t, old, "s1", claim(1), events.Parked{})
	dir, first := create(t, old)
	again := open(t, server(t))
	restoreInto(t, again, dir)
	write(t, again, "s1", claim(3), events.Parked{})
	dir, second := create(t, again)
	cell := open(t, server(t))
	restoreInto(t, cell, dir)
	if got := entries(t, cell, "s1"); len(got) != 6 || got[5].Entry.Epoch != 4 {
		t.Errorf("%d entries, the last one %+v", len(got), got[len(got)-1].Entry)
	}
	restores, err := Restores(t.Context(), cell)
	if err != nil || len(restores) != 2 || restores[0].Backup != first.ID || restores[1].Backup != second.ID {
		t.Errorf("restores: %+v, %v", restores, err)
	}
}

func TestWhatWasErasedStaysErased(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seal.key")
	_, err := seal.Create(file)
	must(t, err)
	ring, err := seal.Read(file)
	must(t, err)
	old := provisioned(t).Sealing(ring)
	for _, s := range []content.SessionID{"erased", "deleted", "kept"} {
		must(t, old.Seal(t.Context(), s, ""))
		write(t, old, s, claim(1), text("a secret"), events.Parked{})
	}
	dir, _ := create(t, old)
	keeper := admin.Of(old)
	var known []Head
	for s, erased := range map[content.SessionID]bool{"erased": true, "deleted": false} {
		write(t, old, s, claim(2), text("another secret"), events.Parked{})
		last, err := old.Journal().Last(t.Context(), s)
		must(t, err)
		d, err := keeper.Delete(t.Context(), last, events.SessionDeleted{By: "ada", Reason: "request 7", Erased: erased})
		must(t, err)
		known = append(known, Head{Session: s, Seq: 7, Deletion: &d})
	}

	cell := open(t, server(t)) // without the seal key
	report := restoreInto(t, cell, dir, known...)
	if len(report.Again) != 2 || len(report.Lost) > 0 || report.Sessions != 1 {
		t.Errorf("report: %+v", report)
	}
	with := cell.Sealing(ring)
	if got := entries(t, with, "kept"); len(got) != 4 || events.RestoredOf(got[3].Entry) == nil {
		t.Errorf("the session that is kept has %d entries", len(got))
	}
	for s, length := range map[content.SessionID]int{"erased": 4, "deleted": 1} {
		if left, err := seals.Of(cell).Left(t.Context(), s); err != nil || left {
			t.Errorf("%s has a key: %v, %v", s, left, err)
		}
		last, err := cell.Journal().Last(t.Context(), s)
		must(t, err)
		d, is := events.DeletionOf(last.Entry)
		if !is || d.By != "ada" || d.Reason != "request 7" || d.Erased != (s == "erased") || events.RestoredOf(last.Entry) == nil {
			t.Errorf("%s ends with %+v", s, last.Entry.Events)
		}
		lengths, err := cell.Journal().Lengths(t.Context())
		if err != nil || lengths[s] != uint64(length) {
			t.Errorf("%s has %d entries, want %d: %v", s, lengths[s], length, err)
		}
	}
	for rec, err := range with.Journal().Read(t.Context(), "erased", 0) {
		if must(t, err); rec.Seq == 2 && rec.Err == nil {
			t.Errorf("entry %d can be read: %v", rec.Seq, rec.Entry.Events)
		}
	}
}

func TestASessionThatIsDeletedDuringABackupIsDeletedAgain(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	write(t, old, "s1", claim(1), events.Parked{})
	dir := filepath.Join(t.TempDir(), "backup")
	c := creation{api: api.New(old.Conn()), names: layout.New("turnlog"), dir: dir, made: Manifest{Format: Format, ID: "b1", Namespace: "turnlog", Began: time.Now()}}
	must(t, newDirectory(dir))
	for _, s := range order() {
		must(t, c.copy(t.Context(), s))
		if s.name == "JOURNAL" {
			last, err := old.Journal().Last(t.Context(), "s1")
			must(t, err)
			_, err = admin.Of(old).Delete(t.Context(), last, events.SessionDeleted{Reason: "now"})
			must(t, err)
		}
	}
	must(t, c.rest(t.Context()))
	cell := open(t, server(t))
	if report := restoreInto(t, cell, dir); len(report.Again) != 1 {
		t.Errorf("report: %+v", report)
	}
	last, err := cell.Journal().Last(t.Context(), "s1")
	if _, deleted := events.DeletionOf(last.Entry); err != nil || !deleted {
		t.Errorf("it ends with %v, %v", last.Entry.Events, err)
	}
}

func TestACellThatIsNotEmptyIsRefused(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	write(t, old, "s1", claim(1))
	dir, _ := create(t, old)
	if _, err := Restore(t.Context(), old, dir, Options{}); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "TURNLOG_JOURNAL") {
		t.Errorf("restore over itself: %v", err)
	}
	if got := entries(t, old, "s1"); len(got) != 1 {
		t.Errorf("it has %d entries now", len(got))
	}
	other, err := turnlog.Open(old.Conn(), "other")
	must(t, err)
	if _, err := Restore(t.Context(), other, dir, Options{}); err == nil || !strings.Contains(err.Error(), `--namespace turnlog`) {
		t.Errorf("another namespace: %v", err)
	}
	if _, err := Create(t.Context(), old, dir, "test"); !errors.Is(err, ErrDirectory) {
		t.Errorf("a directory with a backup: %v", err)
	}
	restoreInto(t, provisioned(t), dir) // which has a key of tickets and nothing else
}

// Otherwise backups of every night would fill the disk.
func TestAFailedBackupLeavesNoFiles(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	write(t, old, "s", claim(1), events.Parked{})
	broken := layout.New(old.Namespace()).TileStream()
	_, err := api.New(old.Conn()).Ask(t.Context(), api.StreamDelete+broken, nil)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "backup")
	if _, err := Create(t.Context(), old, dir, "test"); err == nil {
		t.Error("a backup without a stream of the log was made")
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("it left %v, %v", left, err)
	}
	must(t, admin.Of(old).Provision(t.Context(), admin.Config{}))
	_, err = Create(t.Context(), old, dir, "test")
	must(t, err)
}

func TestADamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	write(t, old, "s1", claim(1), text("one"), text("two"), events.Parked{})
	dir, _ := create(t, old)
	cell := open(t, server(t))
	change := func(name string, to func([]byte) []byte) func() {
		path := filepath.Join(dir, name)
		before, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, to(slices.Clone(before)), fileMode))
		return func() { must(t, os.WriteFile(path, before, fileMode)) }
	}
	replace := func(old, to string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !strings.Contains(string(b), old) {
				t.Fatalf("no %s in the manifest", old)
			}
			return []byte(strings.Replace(string(b), old, to, 1))
		}
	}
	for what, c := range map[string]struct {
		file string
		to   func([]byte) []byte
		want string
	}{
		"an archive that is cut off":    {"JOURNAL.arc.s2", func(b []byte) []byte { return b[:len(b)-3] }, "SHA-256"},
		"an archive with another byte":  {"INBOX.arc.s2", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "SHA-256"},
		"an archive that is longer":     {"SEALS.arc.s2", func(b []byte) []byte { return append(b, 0) }, "SHA-256"},
		"an empty archive":              {"KEYS.arc.s2", func([]byte) []byte { return nil }, "SHA-256"},
		"no manifest":                   {manifestFile, func([]byte) []byte { return nil }, manifestFile},
		"a manifest that is cut off":    {manifestFile, func(b []byte) []byte { return b[:len(b)/2] }, manifestFile},
		"a manifest of a later release": {manifestFile, replace(`"format": 1`, `"format": 2`), "the format is 2"},
		"another count":                 {manifestFile, replace(`"messages": 4`, `"messages": 5`), "has 4 messages"},
		"a stream more":                 {manifestFile, replace(`"streams": [`, `"streams": [{"name": "OTHER"},`), "the stream OTHER"},
		"a file elsewhere":              {manifestFile, replace(`"name": "TASKS",`, `"name": "TASKS", "file": "../other",`), "TASKS"},
		"a stream less":                 {manifestFile, replace(`"name": "SEALS"`, `"name": "OTHER"`), "SEALS"},
		"a stream of a later release":   {manifestFile, replace(`"streams": [`, `"streams": [{"name": "NEW", "config": {}},`), "stream NEW"},
	} {
		back := change(c.file, c.to)
		_, err := Restore(t.Context(), cell, dir, Options{})
		if !errors.Is(err, ErrDamaged) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		back()
	}
	must(t, os.Remove(filepath.Join(dir, "BLOBS.arc.s2")))
	if _, err := Check(t.Context(), dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("an archive that is missing: %v", err)
	}
	must(t, os.Symlink("/dev/zero", filepath.Join(dir, "BLOBS.arc.s2")))
	if _, err := Check(t.Context(), dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("an archive without end: %v", err)
	}
	n := layout.New("turnlog")
	if _, err := api.New(cell.Conn()).End(t.Context(), n.JournalStream()); !errors.Is(err, api.ErrNotProvisioned) {
		t.Errorf("the refused backup created streams: %v", err)
	}
}

// TestASessionWhoseEndCannotBeReadIsNotLost has a message at its end that is no entry.
func TestASessionWhoseEndCannotBeReadIsNotLost(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	head := write(t, old, "s1", claim(1), text("one"))
	_, err := api.New(old.Conn()).Publish(t.Context(), &nats.Msg{Subject: layout.New(old.Namespace()).Journal("s1"), Data: []byte("no entry")})
	must(t, err)
	dir, _ := create(t, old)
	r := restoreInto(t, open(t, server(t)), dir, Head{Session: "s1", Seq: head.Seq})
	if len(r.Unmarked) != 1 || r.Unmarked[0].Session != "s1" || len(r.Lost) > 0 {
		t.Errorf("unmarked %+v, lost %+v", r.Unmarked, r.Lost)
	}
}

// TestARestoreThatIsKilledAnywhereIsRepeated kills a restore before its first step, the next one before its second step, and so
// on. Each begins with what the killed one left, and gets one step further. The last one completes.
func TestARestoreThatIsKilledAnywhereIsRepeated(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	write(t, old, "s1", claim(1), text("one"), events.Parked{})
	write(t, old, "s2", claim(1), text("one"))
	dir, _ := create(t, old)
	killed := errors.New("killed")
	var steps []string
	var mu sync.Mutex // some steps are taken at the same time
	_, err := Restore(t.Context(), provisioned(t), dir, Options{before: func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, step)
		return nil
	}})
	must(t, err)
	first := slices.IndexFunc(steps, func(step string) bool { return strings.HasPrefix(step, "create ") }) // the first stream that is created
	if streams := len(layout.New(old.Namespace()).Streams()); first != streams || len(steps) < 2*streams+4 {
		t.Fatalf("steps: %v", steps)
	}
	cell := provisioned(t)
	for at, step := range steps {
		_, err := Restore(t.Context(), cell, dir, Options{before: func(name string) error {
			if name == step {
				return killed
			}
			return nil
		}})
		if !errors.Is(err, killed) {
			t.Fatalf("before %q: %v", step, err)
		}
		begun := at > first // so that it has a stream
		if err := admin.Of(cell).Check(t.Context()); begun != errors.Is(err, admin.ErrRestoring) || err == nil && step != "delete TURNLOG_JOURNAL" {
			t.Errorf("killed before %q, a program finds: %v", step, err)
		}
		if begun {
			if err := admin.Of(cell).Provision(t.Context(), admin.Config{}); !errors.Is(err, admin.ErrRestoring) {
				t.Errorf("killed before %q, provisioned: %v", step, err)
			}
		}
	}
	if report := restoreInto(t, cell, dir); report.Sessions != 2 {
		t.Errorf("%+v", report)
	}
	must(t, admin.Of(cell).Check(t.Context()))
	if got := entries(t, cell, "s2"); len(got) != 3 || got[2].Entry.Epoch != 2 {
		t.Errorf("%d entries", len(got))
	}
	if has, err := Restores(t.Context(), cell); len(has) != 1 || err != nil {
		t.Errorf("restores %+v, %v", has, err)
	}
}

// TestWhatWasUsedAfterAnInterruptedRestoreStays also holds that the error says what to do.
func TestWhatWasUsedAfterAnInterruptedRestoreStays(t *testing.T) {
	t.Parallel()
	old := provisioned(t)
	write(t, old, "s1", claim(1), text("one"), events.Parked{})
	dir, made := create(t, old)
	another, _ := create(t, old)
	killed := errors.New("killed")
	interrupt := func(at string) *turnlog.Cell {
		cell := open(t, server(t))
		_, err := Restore(t.Context(), cell, dir, Options{before: func(step string) error {
			if step == at {
				return killed
			}
			return nil
		}})
		if !errors.Is(err, killed) {
			t.Fatal(err)
		}
		return cell
	}
	for at, used := range map[string]string{"mark s1": "TURNLOG_INBOX", "create JOURNAL": "TURNLOG_INBOX"} {
		cell := interrupt(at)
		if at == "mark s1" {
			_, err := Restore(t.Context(), cell, another, Options{})
			if !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "a restore of the backup "+made.ID+" was interrupted: repeat that one") {
				t.Errorf("restore of another backup: %v", err)
			}
		}
		_, err := cell.Inbox().Send(t.Context(), commands.Envelope{ID: "c1", Session: "s1", Command: commands.Cancel{}})
		must(t, err)
		_, err = Restore(t.Context(), cell, dir, Options{})
		if !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), used) || !strings.Contains(err.Error(), "do nats stream rm --force $s; done") {
			t.Errorf("%s: restore after a command: %v", at, err)
		}
		if some, err := cell.Inbox().HasAny(t.Context(), "s1"); !some || err != nil {
			t.Errorf("%s: the command is gone: %v", at, err)
		}
	}
}

func TestABackupIsMadeOfAClusterAndRestoredOnOne(t *testing.T) {
	t.Parallel()
	on := func() *turnlog.Cell {
		c, err := cluster.Start(t.Context(), t.TempDir())
		must(t, err)
		t.Cleanup(c.Close)
		nc, err := nats.Connect(c.ClientURL())
		must(t, err)
		t.Cleanup(nc.Close)
		return open(t, nc)
	}
	single := provisioned(t)
	head := write(t, single, "s1", claim(1), text("one"), events.Parked{})
	dir, _ := create(t, single)
	three := on()
	report, err := Restore(t.Context(), three, dir, Options{Replicas: 3})
	must(t, err)
	if report.Sessions != 1 {
		t.Errorf("report: %+v", report)
	}
	write(t, three, "s1", claim(3), text("two"), events.Parked{})
	dir, m := create(t, three)
	if n := m.Streams[slices.IndexFunc(m.Streams, func(s Stream) bool { return s.Name == "JOURNAL" })].Messages; n != 7 {
		t.Errorf("the backup of the cluster has %d entries", n)
	}
	one := open(t, natstest.Connect(t, natstest.Start(t)))
	if _, err := Restore(t.Context(), one, dir, Options{}); err == nil || !strings.Contains(err.Error(), "fewer --replicas") {
		t.Errorf("three copies on one server: %v", err)
	}
	restored, err := Restore(t.Context(), one, dir, Options{Replicas: 1})
	must(t, err)
	if restored.Sessions != 1 {
		t.Errorf("report: %+v", restored)
	}
	again := on()
	restoreInto(t, again, dir)
	got := entries(t, again, "s1")
	if len(got) != 8 || got[2].Hash != head.Hash || got[2].Guard != head.Guard || events.RestoredOf(got[7].Entry) == nil {
		t.Errorf("%d entries, the last one %+v", len(got), got[len(got)-1].Entry)
	}
	seen, err := admin.Of(again).Inspect(t.Context())
	must(t, err)
	for _, s := range seen.Streams {
		if s.Replicas != 3 {
			t.Errorf("%s has %d replicas", s.Stream, s.Replicas)
		}
	}
}
