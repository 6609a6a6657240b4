package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Ends holds where streams end. If they have not changed, nothing has arrived for any session of a node, so
// it need not check each one.
type Ends map[string]api.StreamEnd

// Ends returns the current ends of the streams that hold commands.
func (i *Inbox) Ends(ctx context.Context) (Ends, error) {
	n := i.cell.names
	out := make(Ends)
	for _, stream := range []string{n.InboxStream(), n.NamedStream(), n.TimersStream()} {
		end, err := i.cell.api.End(ctx, stream)
		if err != nil {
			return nil, fmt.Errorf("end of %s: %w", stream, err)
		}
		out[stream] = end
	}
	return out, nil
}

// Lost reports whether a stream has lost messages since it ended at the earlier ends.
func (e Ends) Lost(since Ends) bool {
	for stream, was := range since {
		if is := e[stream]; is.Created != was.Created || is.Last < was.Last {
			return true
		}
	}
	return false
}

// HasNew reports whether a session may have received a command between two results of Inbox.Ends. It asks
// the leaders of the streams that have grown.
func (i *Inbox) HasNew(ctx context.Context, s content.SessionID, now, since Ends) (bool, error) {
	if len(since) == 0 || now.Lost(since) {
		return true, nil
	}
	for _, p := range i.cell.names.Commands(s) {
		if now[p.Stream].Last == since[p.Stream].Last {
			continue
		}
		m := i.last(ctx, p)
		if !errors.Is(m.err, api.ErrNoMessage) && (m.err != nil || m.Seq > since[p.Stream].Last) {
			return m.err == nil, m.err
		}
	}
	return false, nil
}
