package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	turnlog "github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/mark"
	"github.com/turnlog/turnlog/jetstream/internal/signing"
)

// ErrNotEmpty is returned by Restore for a cell that has any data, or whose nodes or workers run. Nothing
// was changed. Restore into another account, or stop them and delete the streams.
var ErrNotEmpty = errors.New("the deployment is not empty")

// ahead is how far the sequences of a restored stream are beyond those of the backup. A driver that still
// runs guards its next entry with the sequence of its last one, so no new message may get the sequence of a
// lost one.
const ahead = 1 << 24

// Options are settings of a restore.
type Options struct {
	Replicas int    // copies of each stream; 0: as many as in the backup
	Known    []Head // heads of journals that were stored elsewhere

	before func(step string) error // for tests: called before each step; an error ends the restore as a crash would
}

// Head is what is known of a journal from before the cell was lost.
type Head struct {
	Session  content.SessionID
	Seq      uint64
	Deletion *events.Deletion // the entry is a tombstone; nil: it is not, or this is unknown
}

// Report says what a restore did, and what it could not restore.
type Report struct {
	Backup   string    `json:"backup"`
	Taken    time.Time `json:"taken"` // when the backup began
	At       time.Time `json:"at"`
	Sessions int       `json:"sessions"` // sessions with an entry that says that they were restored
	Woken    int       `json:"woken"`    // those of them that were working, or wait for a timer or a call

	Again     []Gone        `json:"deleted_again"` // deleted or erased after the backup
	Lost      []Loss        `json:"lost"`
	Unmarked  []Unmarked    `json:"unmarked"`
	LostBlobs []MissingBlob `json:"missing_blobs"`
}

// Loss is a session with known heads that the backup does not have.
type Loss struct {
	Session content.SessionID `json:"session"`
	Entries uint64            `json:"entries"` // entries in the backup; 0: the session is not in it
	Known   uint64            `json:"known"`   // entries that existed, at least
}

// Unmarked is a session whose journal does not say that it was restored, because its end cannot be read.
type Unmarked struct {
	Session content.SessionID `json:"session"`
	Why     string            `json:"why"`
}

// restoredKey is the key in JOURNAL's metadata that lists the cell's restores. Only a user who may change
// streams can write it.
const restoredKey = "turnlog_restored"

// Restores returns the restores of a cell, according to its JOURNAL stream, the first one first.
func Restores(ctx context.Context, cell *turnlog.Cell) ([]verdict.Restore, error) {
	config, err := api.New(cell.Conn()).DescribeStream(ctx, layout.New(cell.Namespace()).JournalStream())
	if err != nil {
		return nil, fmt.Errorf("restores of %s: %w", cell.Namespace(), err)
	}
	return restoresIn(config)
}

func restoresIn(config json.RawMessage) (all []verdict.Restore, err error) {
	var has struct {
		Metadata map[string]string `json:"metadata"`
	}
	err = json.Unmarshal(config, &has)
	if text := has.Metadata[restoredKey]; err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &all)
	}
	if err != nil {
		return nil, fmt.Errorf("metadata of JOURNAL, %s: %w", restoredKey, err)
	}
	return all, nil
}

// restore is a cell that is being restored from a backup.
type restore struct {
	*Checked

	dir   string
	cell  *turnlog.Cell
	admin *admin.Cell
	api   *api.Conn
	names layout.Names
	marks mark.Writer
	opts  Options

	id     string // of this restore
	at     time.Time
	gone   map[content.SessionID]events.Deletion
	report *Report
}

// Restore restores a cell from a backup that Check accepts. The cell must be empty, and no node or worker
// may run until the restore is done. Entries that it writes are signed with the cell's key, if it has one.
// If a restore fails or is killed, the next one starts over; until it is done, no program uses the cell.
func Restore(ctx context.Context, cell *turnlog.Cell, dir string, opts Options) (*Report, error) {
	has, err := Check(ctx, dir)
	if err != nil {
		return nil, err
	}
	r := &restore{
		Checked: has, dir: dir, cell: cell, admin: admin.Of(cell), api: api.New(cell.Conn()), names: layout.New(cell.Namespace()), opts: opts,
		id: ulid.Make().String(), at: time.Now().UTC(),
		gone: map[content.SessionID]events.Deletion{},
	}
	keys := signing.Keys{Cell: cell.Namespace(), Own: cell.Key()}
	r.marks = mark.Writer{API: r.api, Names: r.names, Key: keys.Own.ID(), Sign: keys.Entry}
	r.report = &Report{
		Backup: has.ID, Taken: has.Began, At: r.at,
		Again: []Gone{}, Lost: []Loss{}, Unmarked: []Unmarked{}, LostBlobs: has.Missing,
	}
	for _, g := range has.Gone {
		r.gone[g.Session] = g.Deletion
	}
	newest := map[content.SessionID]uint64{}
	for _, h := range opts.Known {
		newest[h.Session] = max(newest[h.Session], h.Seq)
	}
	for _, h := range opts.Known {
		if d := h.Deletion; d != nil && (d.MovedTo == nil || h.Seq == newest[h.Session]) { // a session that was moved may have come back
			r.gone[h.Session] = *d
		}
	}
	if err := r.run(ctx); err != nil {
		return nil, fmt.Errorf("restore %s: %w", cell.Namespace(), err)
	}
	return r.report, nil
}

func (r *restore) run(ctx context.Context) error {
	if r.Namespace != r.names.NS {
		return fmt.Errorf("the backup is of namespace %q, which its streams and subjects contain: restore it with --namespace %s", r.Namespace, r.Namespace)
	}
	there, err := r.empty(ctx)
	if err != nil {
		return err
	}
	for _, stream := range there {
		if err := r.step("delete " + stream); err != nil {
			return err
		}
		if err := r.api.DeleteStream(ctx, stream); err != nil {
			return fmt.Errorf("delete %s: %w", stream, err)
		}
	}
	err = r.streams(ctx)
	if err == nil {
		err = r.mark(ctx)
	}
	if err == nil {
		err = r.finish(ctx)
	}
	switch {
	case api.IsTooFewServers(err):
		return fmt.Errorf("%w: the streams have more copies than there are servers: repeat the restore with fewer --replicas", err)
	case err != nil:
		return fmt.Errorf("%w: repeat the restore, which starts over", err)
	}
	return nil
}

func (r *restore) step(name string) error {
	if r.opts.before == nil {
		return nil
	}
	return r.opts.before(name)
}

// streams creates the streams, JOURNAL last: without it, no node drives a session.
func (r *restore) streams(ctx context.Context) error {
	at := r.index("JOURNAL")
	inOrder := append(slices.Delete(slices.Clone(r.Streams), at, at+1), r.Streams[at])
	for _, s := range inOrder {
		if err := r.stream(ctx, s); err != nil {
			return err
		}
	}
	cfg := admin.Config{Restoring: true}
	js, err := jetstream.New(r.cell.Conn())
	if err != nil {
		return err //nolint:wrapcheck // only options can be wrong
	}
	for _, raw := range r.Queues {
		var q jetstream.ConsumerConfig
		if err := json.Unmarshal(raw, &q); err != nil {
			return fmt.Errorf("queue: %w", err)
		}
		within, cancel := context.WithTimeout(ctx, api.CreateTimeout)
		_, err := js.CreateConsumer(within, r.names.TasksStream(), q)
		cancel()
		if err != nil {
			return fmt.Errorf("queue %s: %w", q.Durable, err)
		}
	}
	has, err := r.journal(ctx)
	if err != nil {
		return err
	}
	cfg.Replicas, cfg.Memory = has.Replicas, has.Storage == jetstream.MemoryStorage
	return r.admin.Provision(ctx, cfg) // streams that the backup's release did not have
}

// stream creates one stream. Its sequences continue far beyond those of the backup.
func (r *restore) stream(ctx context.Context, s Stream) error {
	if err := r.step("create " + s.Name); err != nil {
		return err
	}
	config, err := r.configured(s)
	if err != nil {
		return err
	}
	path, last := "", s.Last+ahead
	if s.File != "" {
		path = filepath.Join(r.dir, s.File)
	}
	at := state{Messages: s.Messages, First: s.First, Last: last}
	if s.Messages == 0 {
		at.First = last + 1
	}
	text, err := at.encode()
	if err != nil {
		return err
	}
	name := streamOf(r.names, s.Name).Config.Name
	for tries := 1; ; tries++ {
		from, to := io.Pipe()
		go func() {
			to.CloseWithError(rewrite(to, path, s.SHA256, last, func(subject string) bool {
				return s.Name == "SEALS" && r.erased(subject) || s.Name == "SNAPSHOTS" && strings.HasPrefix(subject, r.names.Snapshots().Key(layout.PageKeys)) // lists of data that may be lost
			}))
		}()
		err = r.api.CopyIn(ctx, name, api.Copied{Config: config, State: text}, from)
		_ = from.CloseWithError(io.ErrClosedPipe) // ends the goroutine
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || tries == mostTries {
			return err
		}
		_ = r.api.DeleteStream(ctx, name) // all or part of it may exist
	}
}

// mostTries is how often a stream is created if requests are lost.
const mostTries = 3

// erased reports whether a key belongs to a session that was erased after the backup.
func (r *restore) erased(subject string) bool { return r.gone[r.names.SessionOf(subject)].Erased }

// configured returns the settings of a stream. They say that the cell is being restored, so that no program completes a part of
// it. Those of JOURNAL also say that it was restored.
func (r *restore) configured(s Stream) (json.RawMessage, error) {
	config := map[string]json.RawMessage{}
	err := json.Unmarshal(s.Config, &config)
	if err == nil && r.opts.Replicas > 0 {
		config["num_replicas"], err = json.Marshal(r.opts.Replicas)
	}
	if err == nil {
		config["metadata"], err = r.metadata(s, config["metadata"])
	}
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", s.Name, err)
	}
	return json.Marshal(config) //nolint:wrapcheck // the caller names the stream
}

func (r *restore) metadata(s Stream, has json.RawMessage) (json.RawMessage, error) {
	metadata := map[string]string{}
	if len(bytes.TrimSpace(has)) > 0 {
		if err := json.Unmarshal(has, &metadata); err != nil {
			return nil, err //nolint:wrapcheck // the caller names the stream
		}
	}
	metadata[layout.MetaRestoring] = r.ID
	if s.Name == "JOURNAL" {
		all, err := restoresIn(s.Config)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(append(all, verdict.Restore{At: content.TimeOf(r.at), Restored: r.restored()}))
		if err != nil {
			return nil, err //nolint:wrapcheck // likewise
		}
		metadata[restoredKey] = string(text)
	}
	return json.Marshal(metadata) //nolint:wrapcheck // likewise
}

func (r *restore) restored() events.Restored {
	return events.Restored{Backup: r.ID, Taken: content.TimeOf(r.Began)}
}
