// Package move moves a session from one cell to another, with its journal unchanged.
//
// The tombstone at the source, a single guarded entry, decides where the session is. Nothing at the
// target can be read before the tombstone exists and all entries are copied. So a mover may be killed
// between any two writes. Another mover finds out from both cells which steps are done, and continues.
// ADR 24 has the steps.
//
// The cells have different IDs, which are derived from their keys of tickets. They have the same namespace,
// since signatures, wrapped keys and the log of heads include it.
//
// A mover copies the entries, the blobs that they name, and the wrapped key of a sealed session. As in a
// backup, it does not copy state that is derived from the journal. When Move returns, the session is
// removed from the source, except for its blobs, which are collected later.
package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/mark"
	"github.com/turnlog/turnlog/jetstream/internal/signing"
	"github.com/turnlog/turnlog/jetstream/tickets"
)

// Errors of moves. After each of them, the session still lives where it did.
var (
	// ErrCells is returned by New for two cells between which no session can move.
	ErrCells = errors.New("no session can be moved between these deployments")

	// ErrChanged is returned by Move if the session has entries that the caller has not seen. Read it again.
	ErrChanged = errors.New("the session has just changed")

	// ErrTaken is returned by Move if the target has another session with that ID, or had one. Nothing was changed.
	ErrTaken = errors.New("the target has a session with this ID")

	// ErrElsewhere is returned by Move for a session that was moved to another cell, or deleted. The error says where, or when.
	ErrElsewhere = errors.New("the session does not exist in this deployment")

	// ErrKeys is returned by Move if nodes of the target could not read the session: their directory of keys
	// lacks a signer of its entries, or a node lacks its seal key. Nothing was changed.
	ErrKeys = errors.New("the target's nodes could not read the session")

	// ErrBusy is returned by Move if another process is moving the session. Wait for it, or move again.
	ErrBusy = errors.New("another process is moving the session")

	// ErrLost is returned by Move if neither cell has the session although it was moved: the target lost it.
	// Restore the target.
	ErrLost = errors.New("the session was moved, and the target does not have it")
)

// Cell is one of the two cells, with a readable name for its place.
type Cell struct {
	*jetstream.Cell
	Place string
}

// ID returns what identifies a cell, even after it was restored from a backup. It is a keyed hash, with the
// key of tickets, of a dispatch that cannot exist, since its session has no name.
func ID(ctx context.Context, c *jetstream.Cell) (string, error) {
	tickets, err := tickets.Of(ctx, c)
	if err != nil {
		return "", fmt.Errorf("ID of the cell: %w", err)
	}
	return events.HashOf([]byte(tickets.Of("", "cell", 0))).String()[:idLen], nil
}

const idLen = 16 // of the hexadecimal digits

// end is one end of a move.
type end struct {
	Cell
	id    string
	api   *api.Conn
	names layout.Names
}

// Mover moves sessions between two cells. One goroutine uses it.
type Mover struct {
	from, to end

	before func(step string) error // for tests: called before each write; an error ends the move as a crash would
}

// New returns a mover. It needs the permissions of a keeper and of a driver without a name in both cells.
// Entries that it writes are signed with the cells' keys, if they have any.
func New(ctx context.Context, from, to Cell) (*Mover, error) {
	m := &Mover{before: func(string) error { return nil }}
	if a, b := from.Namespace(), to.Namespace(); a != b {
		return nil, fmt.Errorf("%w: the namespaces %s and %s differ, and signatures and keys contain the namespace", ErrCells, a, b)
	}
	var err error
	if m.from, err = open(ctx, from); err != nil {
		return nil, err
	}
	if m.to, err = open(ctx, to); err != nil {
		return nil, err
	}
	if m.from.id == m.to.id {
		return nil, fmt.Errorf("%w: both have the cell ID %s, so they are the same cell, or copies of one", ErrCells, m.to.id)
	}
	return m, nil
}

func open(ctx context.Context, c Cell) (end, error) {
	if c.User() != "" {
		return end{}, fmt.Errorf("%w: at %s, a user with a name (%s) cannot write journals: use a user without a name", ErrCells, c.Place, c.User())
	}
	id, err := ID(ctx, c.Cell)
	if err != nil {
		return end{}, fmt.Errorf("%s: %w", c.Place, err)
	}
	return end{c, id, api.New(c.Conn()), layout.New(c.Namespace())}, nil
}

// marks returns the writer of the mover's own entries.
func (e end) marks() mark.Writer {
	keys := signing.Keys{Cell: e.Namespace(), Own: e.Key()}
	return mark.Writer{API: e.api, Names: e.names, Key: keys.Own.ID(), Sign: keys.Entry}
}

// Moved says what a move did.
type Moved struct {
	Session         content.SessionID `json:"session"`
	events.Deletion                   // the tombstone at the source
	Copied          uint64            `json:"copied_entries"` // by this move; an earlier mover may have copied the rest
	Blobs           int               `json:"blobs"`          // blobs that its entries name
	Sealed          bool              `json:"sealed"`         // the nodes of the target need its seal key
	Removed         uint64            `json:"removed_entries"`
}

// Move moves a session that is at rest after the entry last. If a move was interrupted, it continues that
// move, whatever last is. d says who moves the session. After any error that is not of this package, it is
// unknown whether the session was moved: move it again.
func (m *Mover) Move(ctx context.Context, s content.SessionID, last journal.Head, d events.SessionDeleted) (Moved, error) {
	out := Moved{Session: s}
	err := m.move(ctx, &out, last, d)
	if err != nil {
		err = fmt.Errorf("move %s to %s: %w", s, m.to.Place, err)
	}
	return out, err
}

func (m *Mover) move(ctx context.Context, out *Moved, head journal.Head, d events.SessionDeleted) error {
	last, err := m.from.Journal().Last(ctx, out.Session)
	if err != nil {
		return err
	}
	gone, deleted := events.DeletionOf(last.Entry)
	switch {
	case !deleted && last.Head != head:
		return ErrChanged
	case !deleted:
		if last, err = m.leave(ctx, out, last, d); err != nil {
			return err
		}
		gone, _ = events.DeletionOf(last.Entry)
	case gone.MovedTo == nil || gone.MovedTo.Cell != m.to.id:
		return fmt.Errorf("%w: it %s", ErrElsewhere, gone)
	}
	out.Deletion = gone
	if err := m.arrive(ctx, out, last); err != nil {
		return err
	}
	if err := m.before("clear"); err != nil {
		return err
	}
	out.Removed, err = admin.Of(m.from.Cell.Cell).ClearMoved(ctx, out.Session, last.Hash)
	if err != nil {
		return fmt.Errorf("the session was moved, but not all of its data is removed at %s: repeat the move: %w", m.from.Place, err)
	}
	return nil
}

// leave prepares the target, and writes the tombstone at the source.
func (m *Mover) leave(ctx context.Context, out *Moved, last journal.Record, d events.SessionDeleted) (journal.Record, error) {
	check, err := m.signatures(ctx)
	if err != nil {
		return last, err
	}
	j, err := m.read(ctx, out.Session, last.Seq, check.add)
	if err == nil {
		err = errors.Join(check.end(), m.opens(ctx, out.Session))
	}
	if err != nil {
		return last, err
	}
	at, err := m.look(ctx, j)
	switch {
	case err != nil:
		return last, err
	case at.there:
		return last, fmt.Errorf("%w: it is in the target", ErrTaken)
	case at.copied:
		return last, fmt.Errorf("%w: an earlier move to the target is unfinished, and its source has not stopped", ErrTaken)
	}
	if err := m.take(ctx, out, j); err != nil {
		return last, err
	}
	held, err := m.reserve(ctx, j, at)
	if err != nil {
		return last, err
	}
	if err := m.before("tombstone"); err != nil {
		return last, err
	}
	d.MovedTo = &events.MovedTo{Cell: m.to.id, Place: m.to.Place}
	_, err = m.from.marks().Append(ctx, last, events.Entry{
		Cause: "move/" + held.Move, At: content.TimeOf(time.Now()), Epoch: last.Entry.Epoch, Events: []events.Event{d},
	})
	if api.IsConflict(err) {
		return last, errors.Join(ErrChanged, m.remove(ctx, out.Session, at, held))
	}
	if err != nil {
		return last, err
	}
	return m.from.Journal().Last(ctx, out.Session)
}

// arrive completes the journal at the target.
func (m *Mover) arrive(ctx context.Context, out *Moved, tombstone journal.Record) error {
	j, err := m.read(ctx, out.Session, out.Entries, func(journal.Record) {})
	if err != nil {
		return err
	}
	j.tombstone, j.left = tombstone.Hash, tombstone.Payload
	at, err := m.look(ctx, j)
	switch {
	case err != nil:
		return err
	case at.there:
		return m.settle(ctx, out)
	case j.last.Seq == 0:
		return fmt.Errorf("%w, and the source no longer has its entries", ErrLost)
	}
	if err := m.take(ctx, out, j); err != nil {
		return err
	}
	if !at.copied { // the mover that reserved it may still give up
		if at.held, err = m.reserve(ctx, j, at); err != nil {
			return err
		}
	}
	first, err := m.copy(ctx, out, j, at.held)
	if err != nil {
		return err
	}
	if err := m.before("commit"); err != nil {
		return err
	}
	if err := m.to.api.Purge(ctx, m.to.names.JournalStream(), m.to.names.Journal(out.Session), first); err != nil {
		return err
	}
	return m.settle(ctx, out)
}

// settle reads the journal at the target before the source is cleared, and records there what nodes and
// people must know.
func (m *Mover) settle(ctx context.Context, out *Moved) error {
	var hash events.Hash
	for rec, err := range m.to.Journal().Read(ctx, out.Session, 0) {
		if err != nil {
			return fmt.Errorf("read it there: %w", err)
		}
		if rec.Seq == out.Entries {
			hash = rec.Hash
		}
	}
	if hash != out.Last {
		return fmt.Errorf("%w: the target's journal does not have the last entry, %s", ErrLost, out.Last)
	}
	if err := m.before("notes"); err != nil {
		return err
	}
	note, err := m.from.DeadLetters().Noted(ctx, out.Session)
	if err == nil && note > 0 {
		_, err = m.to.DeadLetters().Note(ctx, out.Session)
	}
	if err == nil { // nodes that could not read it may have noted a breakage
		err = m.to.api.Purge(ctx, m.to.names.Dead().Stream(), m.to.names.Dead().Key(layout.TrialKeys+string(out.Session)), 0)
	}
	return err
}
