package report

import (
	"context"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/loop"
)

// MetaOwner is the key of a session's metadata for the name of the person who opened it through a gateway.
const MetaOwner = "owner"

// mostParents limits how many parent sessions are searched for an owner.
const mostParents = 32

// opened says who opened a session.
type opened struct {
	by     string            // the person; "": not opened through a gateway
	parent content.SessionID // the session that it works for; "": none
}

func openedAs(md content.Metadata, parent content.SessionID) opened {
	return opened{md.Text(MetaOwner), parent}
}

// owner returns the person who opened the session. If it was not opened through a gateway, that is the owner
// of the nearest parent that was. up reads a parent.
func (o opened) owner(up func(content.SessionID) (opened, error)) (string, error) {
	for range mostParents {
		if o.by != "" || o.parent == "" {
			break
		}
		var err error
		if o, err = up(o.parent); err != nil {
			return "", err
		}
	}
	return o.by, nil
}

// Owner returns the name of the person who owns a session, or "". The owner opened the session through a
// gateway, or the session that it works for. A session that was deleted or cannot be read has no owner.
func Owner(ctx context.Context, c *client.Client, s *loop.State) (string, error) {
	return openedAs(s.Metadata, s.Parent).owner(beginnings(ctx, c))
}

// beginnings returns a function that reads the beginning of a journal.
func beginnings(ctx context.Context, c *client.Client) func(content.SessionID) (opened, error) {
	return func(id content.SessionID) (opened, error) {
		began, err := c.Started(ctx, id)
		if err != nil || began == nil {
			return opened{}, err
		}
		return openedAs(began.Metadata, began.Parent), nil
	}
}

// owned returns the summary of a session with its owner, which it finds in the other summaries.
func (x *Index) owned(s *Summary) *Summary {
	owner, _ := opened{s.Owner, s.Parent}.owner(func(id content.SessionID) (opened, error) { // this function returns no error
		if of := x.rows[id].row; of != nil {
			return opened{of.Owner, of.Parent}, nil
		}
		return opened{}, nil
	})
	if owner == s.Owner {
		return s
	}
	of := *s
	of.Owner = owner
	return &of
}
