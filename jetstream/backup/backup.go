// Package backup copies a cell into a directory while the cell runs, and restores a cell from such a directory.
//
// The server copies every stream with its sequences. A stream that messages refer to is copied after the
// stream with these messages. So a backup needs no pause, and journals, their anchors and their proofs have
// the same bytes in the restored cell. State that is derived from the journals is not copied: run tokens,
// calls on queues, timers, offers, records of nodes. Drivers rebuild it.
//
// A restored cell differs from the lost cell, and its journals record that. Each session gets an entry
// with a new epoch that names the backup (events.DriverClaimed.Restored). All sequences continue far
// beyond the lost ones, so nothing that a process remembers of the lost cell matches: an old driver is
// refused, whatever it has written since the backup.
//
// A backup contains the streams' content: conversations, the key of tickets, and the wrapped keys of sealed
// sessions. It never contains seal keys. A person with a backup can read the cell, except for its sealed
// sessions.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Errors of backups.
var (
	// ErrDamaged is returned for a backup that has changed or was not finished. Use another one.
	ErrDamaged = errors.New("the backup is damaged")

	// ErrDirectory is returned by Create for a directory that has files. Choose a new one.
	ErrDirectory = errors.New("the directory is not empty")

	// ErrBusy is returned by Create if a stream that must not change while it is copied changed during each
	// attempt. Try again when less is written.
	ErrBusy = errors.New("the stream kept changing")
)

const (
	// Format is the version of the manifest.
	Format = 1

	manifestFile = "backup.json" // written last
	extension    = ".arc.s2"     // of the server's archives, as other tools name them

	dirMode  = 0o700
	fileMode = 0o600
)

// Manifest describes the content of a backup.
type Manifest struct {
	Format    int       `json:"format"`
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Release   string    `json:"release"` // of the program that made it
	Server    string    `json:"server"`  // the release of the NATS server
	Began     time.Time `json:"began"`   // the backup has everything that the cell had accepted by then
	Ended     time.Time `json:"ended"`

	// Active is the last sequence of JOURNAL when the backup began. Sessions with later entries were working
	// during the backup.
	Active uint64 `json:"active"`

	Streams []Stream          `json:"streams"` // in the order in which they were copied
	Queues  []json.RawMessage `json:"queues"`  // the consumers of TASKS

	// Gone lists the sessions that were deleted or erased after JOURNAL was copied.
	Gone []Gone `json:"gone"`
}

// index returns the place of a stream in Streams, or -1.
func (m *Manifest) index(name string) int {
	return slices.IndexFunc(m.Streams, func(s Stream) bool { return s.Name == name })
}

// Stream is the copy of one stream. A stream that a backup does not copy has no file.
type Stream struct {
	Name     string          `json:"name"` // the same in every cell, such as JOURNAL
	File     string          `json:"file,omitempty"`
	Size     int64           `json:"size,omitempty"` // of the file
	SHA256   string          `json:"sha256,omitempty"`
	Messages uint64          `json:"messages"`
	First    uint64          `json:"first_seq"`
	Last     uint64          `json:"last_seq"`
	Config   json.RawMessage `json:"config"` // as the server describes it
}

// Gone is a session that a restore must delete or erase again.
type Gone struct {
	Session content.SessionID `json:"session"`
	events.Deletion
}

// step is how a stream is copied.
type step struct {
	name  string
	whole bool // a message replaced during the copy would be missing, so the stream is copied again until nothing was written
}

// order returns the streams to copy, in order.
//
// Streams with what a journal does not repeat come before it: a command that is handled during the backup
// is in the copy of its inbox, of the journal, or of both, which does no harm. Streams with what a journal
// refers to come after it: keys, signers, agents, blobs. Lists and snapshots are rebuilt from the journal,
// so theirs need not be exact.
func order() []step {
	return []step{
		{"INBOX", false},
		{"NAMED", false},
		{"SCHEDULES", true},
		{"NAMED_SCHEDULES", true},
		{"WEBHOOKS", true},
		{"MEMORY", true},
		{"SNAPSHOTS", false},
		{"APPROVALS", false},
		{"DEAD", false},
		{"CHECKPOINTS", true},
		{"JOURNAL", false},
		{"SEALS", false},
		{"SIGNERS", false},
		{"KEYS", false},
		{"AGENTS", true},
		{"BLOBS", false},
		{"LOG", false},
	}
}

// attempts is how often a stream that must not change meanwhile is copied. Such a copy takes milliseconds.
const attempts = 20

// creation is a backup in progress.
type creation struct {
	api   *api.Conn
	names layout.Names
	dir   string
	made  Manifest
}

// Create makes a backup of a cell in a new directory. If it fails, it leaves the directory empty. It may be
// interrupted: a backup without a manifest is rejected.
func Create(ctx context.Context, cell *jetstream.Cell, dir, release string) (*Manifest, error) {
	c := creation{api: api.New(cell.Conn()), names: layout.New(cell.Namespace()), dir: dir}
	c.made = Manifest{
		Format: Format, ID: ulid.Make().String(), Namespace: cell.Namespace(), Release: release,
		Server: cell.Conn().ConnectedServerVersion(), Began: time.Now().UTC(), Queues: []json.RawMessage{}, Gone: []Gone{},
	}
	if err := c.run(ctx); err != nil {
		return nil, fmt.Errorf("back up %s: %w", cell.Namespace(), err)
	}
	return &c.made, nil
}

// empty removes the files in a directory.
func empty(dir string) error {
	there, err := os.ReadDir(dir)
	for _, file := range there {
		err = errors.Join(err, os.Remove(filepath.Join(dir, file.Name())))
	}
	return err
}

func (c *creation) run(ctx context.Context) (err error) {
	if err := newDirectory(c.dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, empty(c.dir))
		}
	}()
	end, err := c.api.End(ctx, c.names.JournalStream())
	if err != nil {
		return err
	}
	c.made.Active = end.Last
	for _, s := range order() {
		if err := c.copy(ctx, s); err != nil {
			return err
		}
	}
	return c.rest(ctx)
}

// rest completes a backup after its streams are copied.
func (c *creation) rest(ctx context.Context) (err error) {
	for _, s := range c.names.Streams() {
		if err := c.describe(ctx, s); err != nil {
			return err
		}
	}
	if c.made.Queues, err = c.api.Consumers(ctx, c.names.TasksStream()); err != nil {
		return err
	}
	if err := c.deletions(ctx); err != nil {
		return err
	}
	c.made.Ended = time.Now().UTC()
	return c.finish()
}

// newDirectory creates a directory that only this user can read.
func newDirectory(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err //nolint:wrapcheck // it names the directory
	}
	there, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return err //nolint:wrapcheck // likewise
	case len(there) > 0:
		return fmt.Errorf("%w: %s has %s: name a new directory, or remove what an interrupted backup left there", ErrDirectory, dir, there[0].Name())
	}
	return os.Chmod(dir, dirMode) //nolint:wrapcheck // likewise
}

// streamOf returns one of a cell's streams.
func streamOf(names layout.Names, name string) layout.Stream {
	all := names.Streams()
	return all[slices.IndexFunc(all, func(s layout.Stream) bool { return s.Name == name })]
}

// copy copies a stream into a file.
func (c *creation) copy(ctx context.Context, s step) error {
	on := streamOf(c.names, s.name).Config.Name
	for range attempts {
		out, err := c.attempt(ctx, s.name, on)
		if err != nil {
			return err
		}
		if s.whole {
			end, err := c.api.End(ctx, on)
			if err != nil {
				return err
			}
			if end.Last != out.Last || end.Messages != out.Messages {
				continue
			}
		}
		c.made.Streams = append(c.made.Streams, out)
		return nil
	}
	return fmt.Errorf("copy %s: %w in %d attempts", on, ErrBusy, attempts)
}

func (c *creation) attempt(ctx context.Context, name, on string) (Stream, error) {
	out := Stream{Name: name, File: name + extension}
	path := filepath.Join(c.dir, out.File)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return out, err //nolint:wrapcheck // it names the file
	}
	sum := sha256.New()
	about, err := c.api.CopyOut(ctx, on, io.MultiWriter(f, sum))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return out, c.api.Explain(ctx, on, err)
	}
	out.SHA256, out.Config = hex.EncodeToString(sum.Sum(nil)), about.Config
	err = scanFile(path, out.SHA256, func(s state) error {
		out.First, out.Last = s.First, s.Last
		return nil
	}, func(message) error {
		out.Messages++
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("copy %s: the server did not send an archive: %w", on, err)
	}
	at, err := os.Stat(path)
	if err == nil {
		out.Size = at.Size()
	}
	return out, err //nolint:wrapcheck // it names the file
}

// describe records where a stream that is not copied ends, so that the restored one continues after that.
func (c *creation) describe(ctx context.Context, s layout.Stream) error {
	if slices.ContainsFunc(c.made.Streams, func(have Stream) bool { return have.Name == s.Name }) {
		return nil
	}
	end, err := c.api.End(ctx, s.Config.Name)
	if err != nil {
		return err
	}
	config, err := c.api.DescribeStream(ctx, s.Config.Name)
	c.made.Streams = append(c.made.Streams, Stream{Name: s.Name, Last: end.Last, Config: config})
	return err
}

// deletions records the sessions that were deleted after JOURNAL was copied. The copies of SEALS and BLOBS
// may lack their keys and blobs.
func (c *creation) deletions(ctx context.Context) error {
	after := c.made.Streams[c.made.index("JOURNAL")].Last + 1
	for m, err := range c.api.AllFromLeader(ctx, c.names.JournalStream(), c.names.Journal(layout.AllSessions), after) {
		if err != nil {
			return err
		}
		if m.Spoofed || m.Header.Get(layout.HeaderKinds) != string(events.KindSessionDeleted) {
			continue
		}
		e, err := events.Decode(m.Data)
		if d, deleted := events.DeletionOf(e); err == nil && deleted && c.names.SessionOf(m.Subject) == e.Session {
			c.made.Gone = append(c.made.Gone, Gone{e.Session, d})
		}
	}
	return nil
}

// finish writes the manifest, which makes the backup valid.
func (c *creation) finish() error {
	text, err := json.MarshalIndent(c.made, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", manifestFile, err)
	}
	return renameio.WriteFile(filepath.Join(c.dir, manifestFile), append(text, '\n'), fileMode) //nolint:wrapcheck // it names the file
}

// Open returns the manifest of a backup. It reads no other file; see [Check].
func Open(dir string) (*Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s: it is not a backup, or was not finished", ErrDamaged, dir, manifestFile)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	bad := func(err error) error {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, filepath.Join(dir, manifestFile), err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, bad(err)
	}
	if m.Format != Format {
		return nil, bad(fmt.Errorf("the format is %d, and this release reads %d: use release %q, which made the backup", m.Format, Format, m.Release))
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&Manifest{}); err != nil {
		return nil, bad(err)
	}
	if ns, err := layout.ParseNamespace(m.Namespace); err != nil || ns != m.Namespace || m.ID == "" {
		return nil, bad(errors.New("the namespace of the backup is missing"))
	}
	all := layout.New(m.Namespace).Streams()
	for _, s := range all {
		i := m.index(s.Name)
		copied := slices.ContainsFunc(order(), func(o step) bool { return o.name == s.Name })
		switch {
		case i < 0:
			return nil, bad(fmt.Errorf("the stream %s is missing; if the release that made the backup, %q, has no such stream, restore with that release", s.Name, m.Release))
		case copied && m.Streams[i].File != s.Name+extension:
			return nil, bad(fmt.Errorf("the stream %s has no file", s.Name))
		case !copied && m.Streams[i].File != "":
			return nil, bad(fmt.Errorf("the stream %s has a file", s.Name))
		}
	}
	for _, s := range m.Streams {
		if !slices.ContainsFunc(all, func(known layout.Stream) bool { return known.Name == s.Name }) {
			return nil, bad(fmt.Errorf("this release does not know the stream %s: use the release that made it, %q", s.Name, m.Release))
		}
	}
	return m, nil
}

// Checked describes a backup that was checked.
type Checked struct {
	*Manifest

	Sessions int `json:"sessions"` // with entries or a tombstone
	Entries  int `json:"entries"`

	// Missing lists blobs that entries name as their payload and that the backup does not have.
	Missing []MissingBlob `json:"missing_blobs"`
}

// MissingBlob is an entry whose payload is not there.
type MissingBlob struct {
	Session content.SessionID `json:"session"`
	Blob    string            `json:"blob"`
}

// Check reads all of a backup and compares it with its manifest. It needs no server.
func Check(ctx context.Context, dir string) (*Checked, error) {
	m, err := Open(dir)
	if err != nil {
		return nil, err
	}
	out := &Checked{Manifest: m, Missing: []MissingBlob{}}
	names := layout.New(m.Namespace)
	sessions, blobs := map[content.SessionID]bool{}, map[string]bool{}
	var named []MissingBlob
	for _, s := range m.Streams {
		if s.File == "" {
			continue
		}
		err := s.check(ctx, dir, func(msg message) error {
			switch s.Name {
			case "BLOBS":
				blobs[msg.Subject] = true
			case "JOURNAL":
				session := names.SessionOf(msg.Subject)
				sessions[session], out.Entries = true, out.Entries+1
				if h, err := headers(msg); err == nil && h.Get(layout.HeaderBlob) != "" {
					named = append(named, MissingBlob{session, h.Get(layout.HeaderBlob)})
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	gone := map[content.SessionID]bool{}
	for _, g := range m.Gone {
		gone[g.Session] = true
	}
	for _, n := range named {
		if !gone[n.Session] && !blobs[names.BlobMeta(n.Blob)] {
			out.Missing = append(out.Missing, n)
		}
	}
	out.Sessions = len(sessions)
	return out, nil
}

// check reads the copy of a stream.
func (s Stream) check(ctx context.Context, dir string, each func(message) error) error {
	path, count := filepath.Join(dir, s.File), uint64(0)
	err := scanFile(path, s.SHA256, func(has state) error {
		if has.First != s.First || has.Last != s.Last {
			return fmt.Errorf("%w: it has the sequences %d to %d, want %d to %d", ErrDamaged, has.First, has.Last, s.First, s.Last)
		}
		return nil
	}, func(m message) error {
		count++
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return each(m)
	})
	if err == nil && count != s.Messages {
		err = fmt.Errorf("%w: %s has %d messages, want %d", ErrDamaged, path, count, s.Messages)
	}
	return err
}

// headers decodes the headers of a message.
func headers(m message) (nats.Header, error) {
	if len(m.head()) == 0 {
		return nil, nil
	}
	return nats.DecodeHeadersMsg(m.head()) //nolint:wrapcheck // callers only check for an error
}
