package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/agents"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// Tools lists the tools that the cell's workers offer.
func (c *Client) Tools(ctx context.Context) ([]tool.Spec, error) {
	offers, err := c.Offers(ctx)
	if err != nil {
		return nil, err
	}
	var all []tool.Spec
	for _, o := range offers {
		all = append(all, o.Tools...)
	}
	return all, nil
}

// Offers lists what the cell's workers offer, by worker, and the queue of each.
func (c *Client) Offers(ctx context.Context) ([]jetstream.Offer, error) {
	offers, err := c.cell.Catalog().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", forbidden(err))
	}
	return offers, nil
}

// Agents lists the newest version of each agent that is published in the cell.
func (c *Client) Agents(ctx context.Context) ([]agents.Agent, error) {
	all, err := agents.Of(c.cell).List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", forbidden(err))
	}
	return all, nil
}

// StoreFile stores a file in the cell and returns an input part that refers to it. Files without references
// are deleted later.
func (c *Client) StoreFile(ctx context.Context, name, mime string, src io.ReadSeeker) (content.Part, error) {
	id, size, err := c.cell.Blobs().PutFrom(ctx, src)
	if err != nil {
		return content.Part{}, fmt.Errorf("store %s: %w", name, forbidden(err))
	}
	return content.BlobPart(name, mime, id, size), nil
}

// Settle returns once the session has handled the input that was sent to it before. If this user may not read
// inboxes, or input is pending, that needs a driver: without one, Settle returns session.ErrNoAnswer when ctx
// ends.
func (c *Client) Settle(ctx context.Context, s *session.Session) error {
	pending, err := c.InputPending(ctx, s.ID())
	switch {
	case err != nil && !errors.Is(err, ErrForbidden):
		return err
	case err == nil && !pending:
		return nil
	}
	err = s.Calls().Detach(ctx, content.CallID(ulid.Make().String())) // no such call exists
	if errors.Is(err, session.ErrInvalidState) {                      // commands are handled in order, so earlier input was handled
		return nil
	}
	return err
}

// InputPending reports whether a session has input that it has not handled yet. It returns ErrForbidden if
// this user may not read inboxes.
func (c *Client) InputPending(ctx context.Context, id content.SessionID) (pending bool, err error) {
	if there, err := c.inbox.HasAny(ctx, id); err != nil || !there { // one request, which the server may deny
		return false, forbidden(err)
	}
	state, _, err := c.Read(ctx, id)
	if err != nil {
		return false, err
	}
	for m, err := range c.inbox.Read(ctx, id, state.Cursors, 0) {
		if err == nil {
			err = c.inbox.Open(ctx, &m)
		}
		if err != nil {
			return false, forbidden(err)
		}
		switch m.Envelope.Command.(type) { //nolint:gochecksumtype // other commands are not input
		case commands.SubmitInput, commands.StartTask:
			return true, nil
		}
	}
	return false, nil
}
