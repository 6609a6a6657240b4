package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client/seek"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

func (g *Gateway) eventRoutes() {
	o := op(http.MethodGet, "/api/sessions/{id}/events", "Follow a session as server-sent events", http.StatusOK, 400, 404, 409, 410)
	o.Description = "Events are entry, piece, void, progress, refused, trouble, reconnect and end. The id of an event is the position after it: " +
		"send it to any gateway as Last-Event-ID or after, and the stream continues without gaps or duplicates. " +
		"Pieces of a reply have the same positions whether they are sent live or cut from the recorded reply. " +
		"A void event means: discard the pieces of this attempt. Without a position, the stream starts at the first entry."
	o.Responses["200"] = text("the stream", "text/event-stream")
	huma.Register(g.api, o, g.events)
}

type eventsIn struct {
	SessionPath

	Last  string `header:"Last-Event-ID" maxLength:"200" doc:"the id of the last event received"`
	After string `query:"after" maxLength:"200" doc:"the same, for clients that cannot send the header; or the number of an entry; or now, for new events only"`
}

// now means the end of the journal.
const now = "now"

// events streams the events of a session.
func (g *Gateway) events(ctx context.Context, in *eventsIn) (*huma.StreamResponse, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, g.problemOf(ctx, err)
	}
	place := in.Last
	if place == "" {
		place = in.After
	}
	f, err := g.follow(ctx, s, place)
	if err != nil {
		return nil, g.problemOf(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) { //nolint:contextcheck // it uses the request's context
		r, w := humago.Unwrap(hc)
		g.feeds.Serve(r.Context(), w, f, native{})
	}}, nil
}

// cursorOf returns the cursor at the end of a session as it was read.
func cursorOf(s seen) stream.Cursor {
	var c stream.Call
	if t := s.state.Turn; t != nil && t.Calling && t.Stage == loop.StageModel {
		c = stream.Call{Turn: t.ID, Round: t.Round, Attempt: t.Attempt}
	}
	return stream.After(s.head, c)
}

// shown yields the records of a session after a journal head. It passes the events of each record to show first.
func (g *Gateway) shown(ctx context.Context, id content.SessionID, from journal.Head, show func(stream.Event)) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		st := stream.New(stream.After(from, stream.Call{}))
		for rec, err := range g.client.RecordsFrom(ctx, id, from) {
			if err == nil {
				st.Entry(rec, show)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// from follows a session after a journal head.
func (g *Gateway) from(id content.SessionID, h journal.Head) feed.Following {
	return g.fromCursor(id, h, stream.After(h, stream.Call{}))
}

// fromCursor is like from, but continues within a reply in flight.
func (g *Gateway) fromCursor(id content.SessionID, h journal.Head, c stream.Cursor) feed.Following {
	return feed.Following{Stream: stream.New(c), Updates: func(ctx context.Context) feed.Updates { return g.follows.FollowFrom(ctx, id, h) }, Place: c}
}

// turnAt returns the journal head before the n-th turn. Its cost does not depend on the length of the session.
func (g *Gateway) turnAt(ctx context.Context, s seen, n int) (journal.Head, error) {
	if n > s.state.Turns {
		return journal.Head{}, noTurn(s, n)
	}
	rec, err := seek.Turn(ctx, g.client, s.state.Session, s.head, n)
	if isNotFound(err) {
		err = noTurn(s, n)
	}
	return seek.Before(rec), err
}

func noTurn(s seen, n int) error {
	return problem.New(http.StatusNotFound, "no_turn", "session "+string(s.state.Session)+" has no turn "+strconv.Itoa(n), "use an ID that this API has returned")
}

// keptTurns is how many turns a client that stores messages must keep, and how many it gets at first.
const keptTurns = 100

// latelyAt returns the journal head before the newest keptTurns turns. whole reports whether the session has no others.
func (g *Gateway) latelyAt(ctx context.Context, s seen) (h journal.Head, whole bool, err error) {
	if s.state.Turns <= keptTurns {
		return h, true, nil
	}
	h, err = g.turnAt(ctx, s, s.state.Turns-keptTurns+1)
	return h, false, err
}

// follow follows a session after a place: a cursor, now, or "" for the beginning.
func (g *Gateway) follow(ctx context.Context, s seen, place string) (feed.Following, error) {
	id := s.state.Session
	if place == now {
		return g.fromCursor(id, s.head, cursorOf(s)), nil
	}
	var c stream.Cursor
	if place != "" {
		var err error
		if c, err = stream.ParseCursor(place); err != nil {
			return feed.Following{}, problem.New(http.StatusBadRequest, "bad_cursor", err.Error(), "send the id of an event of this stream unchanged, or omit it to start from the beginning")
		}
	}
	switch {
	case c.Entry == 0 && c.Offset == 0 && c.Position == 0:
		return g.from(id, journal.Head{}), nil
	case c.Entry > s.head.Seq:
		return feed.Following{}, noPlace("session " + string(id) + " has no entry " + place + " yet: it has " + jsonText(s.head.Seq))
	case c.Position == 0: // a cursor written by hand
		f := g.from(id, journal.Head{})
		f.Stream, f.Place = stream.Replay(c), c
		return f, nil
	}
	rec, err := g.client.EntryFrom(ctx, id, c.Position)
	switch {
	case errors.Is(err, session.ErrNotFound), err == nil && (rec.Guard != c.Position || rec.Seq != c.Entry || !c.Names(rec.Hash)):
		return feed.Following{}, noPlace("the cursor belongs to another session, or the session was restored since")
	case err != nil:
		return feed.Following{}, err
	}
	return g.fromCursor(id, rec.Head, c), nil
}

func noPlace(detail string) *problem.Problem {
	return problem.New(http.StatusConflict, "no_place", detail, "start again without a cursor, or with after=now: GET /api/sessions/{id} shows the current session")
}

// native writes a session in the format of /api.
type native struct{}

func (native) Begin(e *feed.Writer, at stream.Cursor) {
	if at.Position != 0 {
		e.Line("id: " + at.String() + "\n")
	}
}

func (native) Trouble(e *feed.Writer, p *problem.Problem) { e.Event("trouble", "", jsonOf(p)) }

func (d native) Stop(e *feed.Writer, p *problem.Problem) { d.Trouble(e, p) }

func (native) Reconnect(e *feed.Writer, why string) {
	e.Line("retry: 500")
	e.Event("reconnect", "", jsonOf(map[string]string{"reason": why}))
}

func (native) Event(e *feed.Writer, ev stream.Event) (last bool) {
	switch {
	case ev.Entry != nil:
		data, err := audit.EntryJSON(*ev.Entry)
		if err != nil {
			data = jsonOf(problem.New(http.StatusInternalServerError, "unreadable", err.Error(), "upgrade the gateway: a newer release can read the entry"))
		}
		e.Event("entry", ev.Cursor.String(), data)
		if d, ok := events.DeletionOf(ev.Entry.Entry); ok {
			e.Event("end", "", jsonOf(map[string]string{"reason": d.String()}))
			return true
		}
	case ev.Piece != nil:
		e.Event("piece", ev.Cursor.String(), jsonOf(ev.Piece))
	case ev.Void != nil:
		e.Event("void", ev.Cursor.String(), jsonOf(ev.Void))
	default:
		kind := "progress"
		switch any(ev.Live).(type) {
		case events.Refused:
			kind = "refused"
		case events.StateChanged:
			return false // entries report the change
		}
		if data, err := events.MarshalEvent(ev.Live); err == nil {
			e.Event(kind, "", data)
		}
	}
	return false
}

// jsonOf encodes a value of this package as one line of JSON.
func jsonOf(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null") // cannot happen for these types
	}
	return b
}

func jsonText(v any) string { return string(jsonOf(v)) }

func isNotFound(err error) bool { return errors.Is(err, session.ErrNotFound) }
