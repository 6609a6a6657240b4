package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Ends says where streams end. It tells a node that holds many sessions that nothing has arrived for any of
// them, without looking for each.
type Ends map[string]api.StreamEnd

// Ends asks for the ends of the streams that have commands.
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

// HasNew reports whether a session may have got a command since the streams ended at the earlier ends, as
// Inbox.Ends returned them. It asks the leaders of the streams that have grown meanwhile.
func (i *Inbox) HasNew(ctx context.Context, s content.SessionID, now, since Ends) (bool, error) {
	if len(since) == 0 || now.Lost(since) {
		return true, nil
	}
	for _, p := range i.cell.names.Commands(s) {
		if now[p.Stream].Last == since[p.Stream].Last {
			continue
		}
		_, err := i.cell.api.Next(ctx, p.Stream, p.Subject, since[p.Stream].Last+1)
		if !errors.Is(err, api.ErrNoMessage) {
			return err == nil, err
		}
	}
	return false, nil
}
