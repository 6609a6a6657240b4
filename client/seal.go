package client

import (
	"context"
	"errors"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/session"
)

// Errors of sealed sessions.
var (
	// ErrNoSealKey is returned by Start for a sealed session if the client has no seal keys. Pass them with
	// WithSealKeys.
	ErrNoSealKey = errors.New("a sealed session needs a seal key (--seal-key FILE; \"turnlog seal init\" makes one)")

	// ErrStoredFile is returned for input with a stored file (StoreFile) to a sealed session: stored files are
	// not encrypted, and would stay readable. Put the bytes into the input instead: see content.FilePart.
	ErrStoredFile = errors.New("a sealed session cannot have stored files, since these are not sealed: put the bytes into the input")

	// ErrSealedFork is returned by Start for a fork of a sealed session: the fork would have the same content
	// under another key.
	ErrSealedFork = errors.New("a sealed session cannot be forked, since its content must stay under its own key")

	// ErrSealedSchedule is returned by Schedule for a sealed session: schedules are not encrypted.
	ErrSealedSchedule = errors.New("a sealed session cannot have schedules, since these are not sealed")
)

// seal creates the key of a session that is about to start, if it is to be sealed.
func (c *Client) seal(ctx context.Context, o Options) (err error) {
	if o.Parent != "" && !o.Sealed {
		if o.Sealed, err = c.IsSealed(ctx, o.Parent); err != nil {
			return err
		}
	}
	switch {
	case !o.Sealed:
		return nil
	case len(c.cell.SealRing()) == 0:
		return ErrNoSealKey
	}
	there, err := c.mayBeSealed(ctx, o.ID)
	if err == nil && !there {
		err = c.cell.Seal(ctx, o.ID, o.Parent)
	}
	return forbidden(err)
}

// mayBeSealed reports whether a session exists and is sealed: this may be a retry, which its driver
// recognizes. It returns an error if the session exists and is not sealed. If it got a key, others would seal
// what they send to it, and its driver could not open that.
func (c *Client) mayBeSealed(ctx context.Context, id content.SessionID) (there bool, err error) {
	last, err := c.journal.Last(ctx, id)
	if errors.Is(err, journal.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if d, deleted := events.DeletionOf(last.Entry); deleted {
		return true, &session.DeletedError{Session: id, Deletion: d}
	}
	if sealed, err := c.cell.IsSealed(ctx, id); sealed || err != nil {
		return true, err
	}
	return true, &session.InvalidStateError{
		Op: "open_session", Reason: commands.ReasonSessionExists, Detail: "session " + string(id) + " exists, and only a new session can be sealed",
	}
}

// IsSealed reports whether a session is sealed, as far as the client can tell.
func (c *Client) IsSealed(ctx context.Context, s content.SessionID) (bool, error) {
	sealed, err := c.cell.IsSealed(ctx, s)
	return sealed, forbidden(err)
}

// checkFiles refuses stored files for a sealed session.
func (c *Client) checkFiles(ctx context.Context, s content.SessionID, cmd commands.Command) error {
	var items []content.Item
	switch cmd := cmd.(type) { //nolint:gochecksumtype // other commands have no files
	case commands.OpenSession:
		items = slices.Concat(cmd.Transcript, cmd.Input)
	case commands.SubmitInput:
		items = cmd.Items
	case commands.StartTask:
		items = []content.Item{{Parts: cmd.Files}}
	}
	stored := slices.ContainsFunc(items, func(it content.Item) bool {
		return slices.ContainsFunc(it.Parts, func(p content.Part) bool {
			if p.Media == nil {
				return false
			}
			_, ok := content.BlobID(p.Media.URI)
			return ok
		})
	})
	if !stored {
		return nil
	}
	if sealed, err := c.IsSealed(ctx, s); err != nil || sealed {
		return errors.Join(err, ErrStoredFile)
	}
	return nil
}
