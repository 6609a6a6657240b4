package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/seek"
	frames "github.com/turnlog/turnlog/gateway/internal/sse"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

func (g *Gateway) eventRoutes() {
	o := op(http.MethodGet, "/api/sessions/{id}/events", "Follow a session as server-sent events", http.StatusOK, 400, 404, 409, 410)
	o.Description = "Events are entry, piece, void, progress, refused, trouble, reconnect and end. The id of an event is the place after it: " +
		"send it as Last-Event-ID, or as after, to any gateway, and the stream continues without a gap or a repetition. " +
		"Pieces of a reply have the same places whether they come live or are cut from the recorded reply. " +
		"A void event says that the pieces of an attempt so far do not count. Without a place the stream begins with the first entry."
	o.Responses = map[string]*huma.Response{"200": {Description: "the stream", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	huma.Register(g.api, o, g.events)
}

type eventsIn struct {
	SessionPath

	Last  string `header:"Last-Event-ID" maxLength:"200" doc:"the id of the last event that was received"`
	After string `query:"after" maxLength:"200" doc:"the same, for clients that cannot send the header; or the number of an entry; now: only what happens from now on"`
}

// now is the place at the end of the journal.
const now = "now"

// events follows a session.
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
	return &huma.StreamResponse{Body: func(hc huma.Context) { //nolint:contextcheck // it has the context of its request
		r, w := humago.Unwrap(hc)
		g.serveEvents(r.Context(), w, f, native{})
	}}, nil
}

// cursorOf returns the place at the end of a session, as it was read.
func cursorOf(s seen) stream.Cursor {
	var c stream.Call
	if t := s.state.Turn; t != nil && t.Calling && t.Stage == loop.StageModel {
		c = stream.Call{Turn: t.ID, Round: t.Round, Attempt: t.Attempt}
	}
	return stream.After(s.head, c)
}

// following is what a session does after a place.
type following struct {
	stream  *stream.Stream
	updates func(context.Context) updates
	place   stream.Cursor // where it begins
}

// shown returns the records of a session after a place that was found, each after its events were shown.
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

// from returns what a session does after a place that was found.
func (g *Gateway) from(id content.SessionID, h journal.Head) following {
	return g.fromCursor(id, h, stream.After(h, stream.Call{}))
}

// fromCursor is from with a reply that is in flight at the place.
func (g *Gateway) fromCursor(id content.SessionID, h journal.Head, c stream.Cursor) following {
	return following{stream.New(c), func(ctx context.Context) updates { return g.client.FollowFrom(ctx, id, h) }, c}
}

// turnAt returns the place before the n-th turn of a session. What turns cost does not depend on how long it is.
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

// keptTurns is how many turns a client has to know that keeps messages, and how many it gets at first.
const keptTurns = 100

// latelyAt returns the place before the newest turns, of which clients keep the messages. whole reports whether these are all.
func (g *Gateway) latelyAt(ctx context.Context, s seen) (h journal.Head, whole bool, err error) {
	if s.state.Turns <= keptTurns {
		return h, true, nil
	}
	h, err = g.turnAt(ctx, s, s.state.Turns-keptTurns+1)
	return h, false, err
}

type updates = func(yield func(client.Update, error) bool)

// follow returns what a session does after a place: the text of a cursor, now, or the beginning if it is empty.
func (g *Gateway) follow(ctx context.Context, s seen, place string) (following, error) {
	id := s.state.Session
	if place == now {
		return g.fromCursor(id, s.head, cursorOf(s)), nil
	}
	var c stream.Cursor
	if place != "" {
		var err error
		if c, err = stream.ParseCursor(place); err != nil {
			return following{}, err
		}
	}
	switch {
	case c.Entry == 0 && c.Offset == 0 && c.Position == 0:
		return g.from(id, journal.Head{}), nil
	case c.Entry > s.head.Seq:
		return following{}, noPlace("session " + string(id) + " has no entry " + place + " yet: it has " + jsonText(s.head.Seq))
	case c.Position == 0: // a person wrote it
		f := g.from(id, journal.Head{})
		f.stream, f.place = stream.Replay(c), c
		return f, nil
	}
	rec, err := g.client.EntryFrom(ctx, id, c.Position)
	switch {
	case errors.Is(err, session.ErrNotFound), err == nil && (rec.Guard != c.Position || rec.Seq != c.Entry || !c.Names(rec.Hash)):
		return following{}, noPlace("the cursor is of another session, or of one that was restored since")
	case err != nil:
		return following{}, err
	}
	return g.fromCursor(id, rec.Head, c), nil
}

func noPlace(detail string) *problem.Problem {
	return problem.New(http.StatusConflict, "no_place", detail, "start again without a cursor, or with after=now: GET /api/sessions/{id} shows the session as it is")
}

// sse writes the events of a dialect.
type sse struct {
	*frames.Writer

	speaks dialect
	last   bool // nothing follows
}

// dialect is how a protocol says what happens in a session.
type dialect interface {
	// begin writes where the stream begins. A reader that leaves before the first event continues there.
	begin(e *sse, at stream.Cursor)

	// show writes an event of the stream and reports whether it was the last one.
	show(e *sse, ev stream.Event) (last bool)

	// trouble writes why nothing comes for now.
	trouble(e *sse, p *problem.Problem)

	// stop writes why the stream stops here.
	stop(e *sse, p *problem.Problem)

	// reconnect writes that the reader is to continue at once, here or at another gateway.
	reconnect(e *sse, why string)
}

// native is the dialect of /api.
type native struct{}

func (native) begin(e *sse, at stream.Cursor) {
	if at.Position != 0 {
		e.Line("id: " + at.String() + "\n")
	}
}

func (native) trouble(e *sse, p *problem.Problem) { e.Event("trouble", "", jsonOf(p)) }

func (d native) stop(e *sse, p *problem.Problem) { d.trouble(e, p) }

func (native) reconnect(e *sse, why string) {
	e.Line("retry: 500")
	e.Event("reconnect", "", jsonOf(map[string]string{"reason": why}))
}

// silent is the part of a dialect that has no words for what is not of the session.
type silent struct{}

func (silent) begin(*sse, stream.Cursor) {}

func (silent) trouble(*sse, *problem.Problem) {}

func (e *sse) put(ev stream.Event) { e.last = e.last || e.speaks.show(e, ev) }

func (native) show(e *sse, ev stream.Event) (last bool) {
	switch {
	case ev.Entry != nil:
		data, err := audit.EntryJSON(*ev.Entry)
		if err != nil {
			data = jsonOf(problem.New(http.StatusInternalServerError, "unreadable", err.Error(), "a newer gateway can read the entry"))
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
			return false // entries say it
		}
		if data, err := events.MarshalEvent(ev.Live); err == nil {
			e.Event(kind, "", data)
		}
	}
	return false
}

// heard is an update of a session, or why there are no more.
type heard struct {
	update client.Update
	err    error
	over   bool
}

// serveEvents writes a stream until the reader leaves, is too slow, or nothing follows, as when the session is deleted.
func (g *Gateway) serveEvents(ctx context.Context, w http.ResponseWriter, f following, speaks dialect) {
	e := &sse{Writer: frames.New(w, g.limits.Patience), speaks: speaks}
	e.Begin()
	w.WriteHeader(http.StatusOK)
	speaks.begin(e, f.place)
	if e.Flush() != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all := make(chan heard)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass := func(h heard) bool {
			select {
			case all <- h:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for u, err := range f.updates(ctx) {
			if !pass(heard{update: u, err: err}) {
				return
			}
		}
		pass(heard{over: true})
	}()
	g.write(ctx, e, f.stream, all)
	stop()
	<-done
}

// reconnect tells the reader to continue at once, here or at another gateway.
func (e *sse) reconnect(why string) {
	e.Begin()
	e.speaks.reconnect(e, why)
	_ = e.Flush()
}

func (g *Gateway) write(ctx context.Context, e *sse, s *stream.Stream, all <-chan heard) {
	beat := time.NewTicker(g.limits.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.closing.Done():
			e.reconnect("this gateway stops")
			return
		case <-beat.C:
			e.Begin()
			e.Line(": \n")
			if g.disconnected() {
				e.speaks.trouble(e, problem.NoNATS())
			}
		case h := <-all:
			e.Begin()
			if g.take(ctx, e, s, h) {
				return
			}
			for more := true; more && e.Room(); { // what has arrived meanwhile goes with it
				select {
				case h := <-all:
					if g.take(ctx, e, s, h) {
						return
					}
				default:
					more = false
				}
			}
		}
		if e.Flush() != nil {
			return
		}
		if e.Late() {
			e.reconnect("you read too slowly")
			return
		}
	}
}

// take writes an update, and reports whether it was the last one.
func (g *Gateway) take(ctx context.Context, e *sse, s *stream.Stream, h heard) (last bool) {
	switch {
	case h.over:
		e.reconnect("the stream ended")
		return true
	case h.err != nil:
		e.speaks.stop(e, g.problemOf(ctx, h.err))
		e.last = true
	case h.update.Record == nil:
		s.Live(h.update.Live, e.put)
	default:
		s.Entry(*h.update.Record, e.put)
	}
	if e.last {
		_ = e.Flush()
	}
	return e.last
}

// jsonOf returns a value of this package as JSON on one line.
func jsonOf(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null") // impossible for its types
	}
	return b
}

func jsonText(v any) string { return string(jsonOf(v)) }

func isNotFound(err error) bool { return errors.Is(err, session.ErrNotFound) }
