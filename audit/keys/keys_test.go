package keys_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
)

var (
	dayOne = content.TimeOf(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))
	dayTwo = dayOne.Add(24 * time.Hour)
)

// world is a root, and a directory with a driver and a person.
type world struct {
	root, node, ada *keys.Signer
	dir             *keys.Directory
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{root: must(keys.NewRoot())(tb), node: must(keys.New())(tb), ada: must(keys.New())(tb)}
	w.dir = w.sign(tb, &keys.Directory{Cell: "turnlog", Version: 1, At: dayOne, Keys: []keys.Key{
		{Public: w.node.Public(), Roles: []keys.Role{keys.Driver}, Name: "node-1", From: dayOne},
		{Public: w.ada.Public(), Roles: []keys.Role{keys.Client, keys.Approver}, Name: "ada", From: dayOne},
	}})
	return w
}

// sign signs a directory and opens it.
func (w *world) sign(tb testing.TB, d *keys.Directory) *keys.Directory {
	tb.Helper()
	return must(keys.Open(must(d.Sign(w.root))(tb), w.root.Public()))(tb)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func TestADirectorySaysWhoSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := keys.Text("turnlog-entry/v1", "turnlog", "s-1", "7", "abc")
	k, err := w.dir.Check(w.node.Sign(text), text, dayTwo, keys.Driver)
	if err != nil || k.Name != "node-1" {
		t.Fatalf("Check = %+v, %v, want node-1", k, err)
	}
	stranger := must(keys.New())(t)
	swapped := w.node.Sign(text)
	swapped.Key = w.ada.ID()
	for name, tt := range map[string]struct {
		by   content.Signature
		text []byte
		at   content.Time
		want error
	}{
		"another text":        {w.node.Sign(text), keys.Text("turnlog-entry/v1", "turnlog", "s-2", "7", "abc"), dayTwo, keys.ErrForged},
		"another purpose":     {w.node.Sign(text), keys.Text("turnlog-result/v1", "turnlog", "s-1", "7", "abc"), dayTwo, keys.ErrForged},
		"another key":         {swapped, text, dayTwo, keys.ErrForged},
		"no bytes":            {content.Signature{Key: w.node.ID()}, text, dayTwo, keys.ErrForged},
		"a stranger's":        {stranger.Sign(text), text, dayTwo, keys.ErrUnknown},
		"none":                {content.Signature{}, text, dayTwo, keys.ErrUnsigned},
		"a person's":          {w.ada.Sign(text), text, dayTwo, keys.ErrRole},
		"before it was valid": {w.node.Sign(text), text, dayOne.Add(-time.Hour), keys.ErrEarly},
	} {
		if _, err := w.dir.Check(tt.by, tt.text, tt.at, keys.Driver); !errors.Is(err, tt.want) {
			t.Errorf("%s: Check = %v, want %v", name, err, tt.want)
		}
	}
	if _, err := w.dir.Check(w.node.Sign(text), text, dayOne.Add(-time.Minute), keys.Driver); err != nil {
		t.Errorf("a clock that is a minute behind: %v", err)
	}
}

func TestARevokedKeySignsNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next := must(keys.Open(must(w.dir.Sign(w.root))(t), w.root.Public()))(t)
	next.Version = 2
	next.Keys[0].Revoked = &keys.Revocation{At: dayTwo, Reason: "a \"lost\" disk\nof node-1"}
	next = w.sign(t, next)
	if r := next.Keys[0].Revoked; r == nil || r.Stolen || !strings.Contains(r.Reason, "\"lost\" disk\n") {
		t.Errorf("revocation after signing = %+v", r)
	}
	text := keys.Text("x")
	if _, err := next.Check(w.node.Sign(text), text, dayTwo.Add(-1), keys.Driver); err != nil {
		t.Errorf("signed before: %v", err)
	}
	if _, err := next.Check(w.node.Sign(text), text, dayTwo, keys.Driver); !errors.Is(err, keys.ErrRevoked) {
		t.Errorf("signed after = %v, want ErrRevoked", err)
	}
	if err := next.Follows(w.dir); err != nil {
		t.Errorf("a revocation does not follow: %v", err)
	}
	if err := w.dir.Follows(next); !errors.Is(err, keys.ErrRolledBack) {
		t.Errorf("the earlier version follows = %v, want ErrRolledBack", err)
	}
}

// Signatures that the owner makes before learning that a key is retired must count; a thief's must not.
func TestAKeyIsRetiredLaterAndWasStolenBefore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		old, next *keys.Revocation
		want      error
	}{
		"in time":          {nil, &keys.Revocation{At: dayTwo.Add(time.Minute)}, nil},
		"too soon":         {nil, &keys.Revocation{At: dayTwo.Add(time.Second)}, keys.ErrNotice},
		"in the past":      {nil, &keys.Revocation{At: dayOne}, keys.ErrNotice},
		"stolen":           {nil, &keys.Revocation{At: dayOne, Stolen: true}, nil},
		"as it was":        {&keys.Revocation{At: dayOne}, &keys.Revocation{At: dayOne}, nil},
		"later":            {&keys.Revocation{At: dayOne}, &keys.Revocation{At: dayTwo.Add(time.Hour)}, nil},
		"earlier":          {&keys.Revocation{At: dayTwo.Add(time.Hour)}, &keys.Revocation{At: dayOne}, keys.ErrNotice},
		"stolen meanwhile": {&keys.Revocation{At: dayTwo}, &keys.Revocation{At: dayOne, Stolen: true}, nil},
		"stolen earlier":   {&keys.Revocation{At: dayTwo, Stolen: true}, &keys.Revocation{At: dayOne, Stolen: true}, nil},
	} {
		w := newWorld(t)
		w.dir.Keys[0].Revoked = tt.old
		before := w.sign(t, w.dir)
		w.dir.Keys[0].Revoked, w.dir.Version = tt.next, 2
		next := w.sign(t, w.dir)
		if err := next.Follows(before); err != nil {
			t.Errorf("%s: Follows = %v", name, err)
		}
		if err := next.CheckNotice(before, dayTwo); !errors.Is(err, tt.want) {
			t.Errorf("%s: CheckNotice = %v, want %v", name, err, tt.want)
		}
	}
}

func TestADirectoryKeepsTimesExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := dayTwo.Add(1234567 * time.Microsecond) // an entry a moment earlier is not required to be signed
	w.dir.Require(keys.Driver, at)
	if got := w.sign(t, w.dir).Required[0].From; got != at {
		t.Errorf("required from %v, want %v", got.Std(), at.Std())
	}
}

func TestALaterDirectoryKeepsEveryKey(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*keys.Directory){
		"a key is gone":          func(d *keys.Directory) { d.Keys = d.Keys[1:] },
		"another owner":          func(d *keys.Directory) { d.Keys[0].Name = "eve" },
		"another role":           func(d *keys.Directory) { d.Keys[0].Roles = []keys.Role{keys.Approver} },
		"an earlier date":        func(d *keys.Directory) { d.Keys[0].From-- },
		"the same version":       func(d *keys.Directory) { d.Version = 1 },
		"another cell":           func(d *keys.Directory) { d.Cell = "other" },
		"a revocation is undone": func(d *keys.Directory) { d.Keys[1].Revoked = nil },
		"a theft is undone":      func(d *keys.Directory) { d.Keys[2].Revoked = &keys.Revocation{At: dayTwo} },
		"a theft is later":       func(d *keys.Directory) { d.Keys[2].Revoked = &keys.Revocation{At: dayTwo + 1, Stolen: true} },
		"a theft at no size":     func(d *keys.Directory) { d.Keys[3].Revoked = &keys.Revocation{At: dayTwo, Stolen: true} },
		"a theft at a later size": func(d *keys.Directory) {
			d.Keys[3].Revoked = &keys.Revocation{At: dayTwo, Stolen: true, Size: 8, Log: "example.com/log"}
		},
		"a theft at a size of another log": func(d *keys.Directory) {
			d.Keys[3].Revoked = &keys.Revocation{At: dayTwo, Stolen: true, Size: 7, Log: "example.com/other"}
		},
	} {
		w := newWorld(t)
		third := must(keys.New())(t)
		w.dir.Keys = append(w.dir.Keys, keys.Key{Public: third.Public(), Roles: []keys.Role{keys.Worker}, Name: "gpu", From: dayOne})
		fourth := must(keys.New())(t)
		w.dir.Keys = append(w.dir.Keys, keys.Key{Public: fourth.Public(), Roles: []keys.Role{keys.Worker}, Name: "cpu", From: dayOne})
		w.dir.Keys[3].Revoked = &keys.Revocation{At: dayTwo, Stolen: true, Size: 7, Log: "example.com/log"}
		w.dir.Keys[1].Revoked, w.dir.Keys[2].Revoked = &keys.Revocation{At: dayTwo}, &keys.Revocation{At: dayTwo, Stolen: true}
		before := w.sign(t, w.dir)
		next := w.sign(t, w.dir)
		next.Version = 2
		if err := w.sign(t, next).Follows(before); err != nil {
			t.Fatalf("%s: unchanged: %v", name, err)
		}
		change(next)
		if err := w.sign(t, next).Follows(before); !errors.Is(err, keys.ErrRolledBack) {
			t.Errorf("%s: Follows = %v, want ErrRolledBack", name, err)
		}
	}
}

func TestOnlyTheRootSignsADirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signed := must(w.dir.Sign(w.root))(t)
	other := must(keys.NewRoot())(t)
	for name, tt := range map[string]struct {
		text string
		root string
		want error
	}{
		"another root":   {string(signed), other.Public(), keys.ErrBadDirectory},
		"a changed name": {strings.Replace(string(signed), "node-1", "node-2", 1), w.root.Public(), keys.ErrBadDirectory},
		"no signature":   {strings.SplitAfter(string(signed), "\n\n")[0], w.root.Public(), keys.ErrBadDirectory},
		"nothing":        {"", w.root.Public(), keys.ErrBadDirectory},
		"a node's key":   {string(signed), w.node.Public(), keys.ErrBadKey},
		"no key":         {string(signed), "root", keys.ErrBadKey},
	} {
		if _, err := keys.Open([]byte(tt.text), tt.root); !errors.Is(err, tt.want) {
			t.Errorf("%s: Open = %v, want %v", name, err, tt.want)
		}
	}
}

// TestADirectoryHasOneForm signs texts that do not mean what they seem to.
func TestADirectoryHasOneForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.SplitAfter(string(must(w.dir.Sign(w.root))(t)), "\n\n")[0]
	text = strings.TrimSuffix(text, "\n")
	signer := must(w.root.Note("turnlog-keys"))(t)
	again := must(note.Sign(&note.Note{Text: text}, signer))(t)
	if _, err := keys.Open(again, w.root.Public()); err != nil {
		t.Fatalf("the text itself: %v", err)
	}
	line := slices.IndexFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, "key ") })
	key := strings.Split(text, "\n")[line]
	for name, changed := range map[string]string{
		"another purpose":  strings.Replace(text, "turnlog-keys/v1", "turnlog-keys/v2", 1),
		"a key twice":      text + key + "\n",
		"an unknown line":  text + "note: trust eve\n",
		"an unknown role":  strings.Replace(text, " driver ", " root ", 1),
		"two cells":        strings.Replace(text, "cell turnlog\n", "cell turnlog\ncell other\n", 1),
		"two spaces":       strings.Replace(text, "cell ", "cell  ", 1),
		"a leading zero":   strings.Replace(text, "version 1", "version 01", 1),
		"version 0":        strings.Replace(text, "version 1", "version 0", 1),
		"another zone":     strings.Replace(text, "at 2026-11-25T12:00:00Z", "at 2026-11-25T13:00:00+01:00", 1),
		"a bad key":        strings.Replace(text, w.node.Public(), w.root.Public(), 1),
		"a bad name":       strings.Replace(text, "node-1", "node.1", 1),
		"a bad time":       strings.Replace(text, "from 2026", "from soon", 1),
		"half a line":      text + "stolen 2026-11-25T12:00:00Z\n",
		"a size of no log": text + "stolen 2026-11-25T12:00:00Z size 7  \"\"\n",
		"size 0":           text + "stolen 2026-11-25T12:00:00Z size 0 example.com/log \"\"\n",
		"half a size":      text + "stolen 2026-11-25T12:00:00Z size 7\n",
	} {
		if changed == text {
			t.Fatalf("%s: nothing changed", name)
		}
		raw := must(note.Sign(&note.Note{Text: changed}, signer))(t)
		if d, err := keys.Open(raw, w.root.Public()); !errors.Is(err, keys.ErrBadDirectory) {
			t.Errorf("%s: Open = %+v, %v, want ErrBadDirectory", name, d, err)
		}
	}
}

func TestRequirementsBeginAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir.Require(keys.Driver, dayTwo)
	w.dir.Require(keys.Approver, dayOne)
	w.dir.Require(keys.Client, dayOne)
	w.dir.Require(keys.Client, 0)
	d := w.sign(t, w.dir)
	for _, tt := range []struct {
		role keys.Role
		at   content.Time
		want bool
	}{
		{keys.Driver, dayTwo, true},
		{keys.Driver, dayTwo - 1, false},
		{keys.Approver, dayTwo, true},
		{keys.Client, dayTwo, false},
		{keys.Worker, dayTwo, false},
	} {
		if got := d.Requires(tt.role, tt.at); got != tt.want {
			t.Errorf("Requires(%s, %s) = %t, want %t", tt.role, tt.at, got, tt.want)
		}
	}
	var none *keys.Directory
	if none.Requires(keys.Driver, dayTwo) {
		t.Error("a cell without a directory requires signatures")
	}
}

func TestDifferentFieldsHaveDifferentTexts(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, fields := range [][]string{{"a", "b"}, {"a\nb"}, {"a\\nb"}, {"a\\", "b"}, {"a", "", "b"}, {"a", "b", ""}, {"a\\\nb"}, {}} {
		text := string(keys.Text("p", fields...))
		if other, ok := seen[text]; ok {
			t.Errorf("%q and %q have the text %q", fields, other, text)
		}
		seen[text] = fields
	}
}

func TestKeysAreInFilesOfTheirOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ada.nk")
	w := newWorld(t)
	if err := w.ada.Write(file); err != nil {
		t.Fatal(err)
	}
	read := must(keys.Read(file))(t)
	text := keys.Text("x")
	if read.Public() != w.ada.Public() || read.ID() != w.ada.ID() || read.Sign(text).String() != w.ada.Sign(text).String() {
		t.Error("the key that was read is another one")
	}
	if err := w.node.Write(file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Write over a key = %v, want ErrExist", err)
	}
	if _, err := keys.ReadRoot(file); !errors.Is(err, keys.ErrBadKey) {
		t.Errorf("ReadRoot of a person's key = %v, want ErrBadKey", err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Read(file); !errors.Is(err, keys.ErrBadKey) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("Read of a file that others can read = %v, want ErrBadKey and what to do", err)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Read(other); !errors.Is(err, keys.ErrBadKey) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Read of another file = %v, want ErrBadKey without its content", err)
	}
	if _, err := keys.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of no file = %v", err)
	}
}

func TestNoSignerSignsNothing(t *testing.T) {
	t.Parallel()
	var none *keys.Signer
	if s := none.Sign(keys.Text("x")); !s.IsZero() || none.ID() != "" {
		t.Errorf("nil signer signs %s", s)
	}
}

func TestRolesAreParsed(t *testing.T) {
	t.Parallel()
	if got, err := keys.ParseRoles("client+approver"); err != nil || !slices.Equal(got, []keys.Role{keys.Client, keys.Approver}) {
		t.Errorf("ParseRoles = %v, %v", got, err)
	}
	for _, bad := range []string{"", "root", "client+", "client+client", "client,approver"} {
		if got, err := keys.ParseRoles(bad); err == nil {
			t.Errorf("ParseRoles(%q) = %v, want an error", bad, got)
		}
	}
}

func FuzzOpen(f *testing.F) {
	w := newWorld(f)
	signed := must(w.dir.Sign(w.root))(f)
	f.Add(signed, 20, byte('x'))
	f.Fuzz(func(t *testing.T, raw []byte, at int, with byte) {
		if d, err := keys.Open(raw, w.root.Public()); err == nil && string(must(d.Sign(w.root))(t)) != string(signed) {
			t.Fatalf("accepted %q", raw)
		}
		changed := slices.Clone(signed)
		at = max(at, 0) % len(changed)
		changed[at] = with
		// The last characters of a signature in base64 have unused bits.
		if d, err := keys.Open(changed, w.root.Public()); err == nil && d.Digest() != w.dir.Digest() {
			t.Fatalf("accepted another directory with %q at %d", with, at)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	w := newWorld(b)
	text := keys.Text("turnlog-entry/v1", "turnlog", "s-1", "7", strings.Repeat("a", 64))
	for b.Loop() {
		w.node.Sign(text)
	}
}

func BenchmarkCheck(b *testing.B) {
	w := newWorld(b)
	text := keys.Text("turnlog-entry/v1", "turnlog", "s-1", "7", strings.Repeat("a", 64))
	s := w.node.Sign(text)
	for b.Loop() {
		if _, err := w.dir.Check(s, text, dayTwo, keys.Driver); err != nil {
			b.Fatal(err)
		}
	}
}
