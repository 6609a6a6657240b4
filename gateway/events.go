package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
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

// shown returns the records of a session from the beginning, each after its events were shown.
func (g *Gateway) shown(ctx context.Context, id content.SessionID, show func(stream.Event)) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		st := stream.New(stream.Cursor{})
		for rec, err := range g.client.Records(ctx, id, 0) {
			if err == nil {
				st.Entry(rec, show)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

type updates = func(yield func(client.Update, error) bool)

// follow returns what a session does after a place: the text of a cursor, now, or the beginning if it is empty.
func (g *Gateway) follow(ctx context.Context, s seen, place string) (following, error) {
	id := s.state.Session
	from := func(h journal.Head) func(context.Context) updates {
		return func(ctx context.Context) updates { return g.client.FollowFrom(ctx, id, h) }
	}
	if place == now {
		c := cursorOf(s)
		return following{stream.New(c), from(s.head), c}, nil
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
		return following{stream.New(c), from(journal.Head{}), c}, nil
	case c.Entry > s.head.Seq:
		return following{}, noPlace("session " + string(id) + " has no entry " + place + " yet: it has " + jsonText(s.head.Seq))
	case c.Position == 0: // a person wrote it
		return following{stream.Replay(c), from(journal.Head{}), c}, nil
	}
	rec, err := g.client.EntryAt(ctx, id, c.Position)
	switch {
	case errors.Is(err, session.ErrNotFound), err == nil && (rec.Seq != c.Entry || !c.Names(rec.Hash)):
		return following{}, noPlace("the cursor is of another session, or of one that was restored since")
	case err != nil:
		return following{}, err
	}
	return following{stream.New(c), from(rec.Head), c}, nil
}

func noPlace(detail string) *Problem {
	return problem(http.StatusConflict, "no_place", detail, "start again without a cursor, or with after=now: GET /api/sessions/{id} shows the session as it is")
}

// sse writes server-sent events to one reader.
type sse struct {
	out  *bufio.Writer
	rc   *http.ResponseController
	slow time.Duration // when a reader counts as slow

	began time.Time // of what was written since the last flush
	late  bool      // the reader is slow

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
	trouble(e *sse, p *Problem)

	// stop writes why the stream stops here.
	stop(e *sse, p *Problem)

	// reconnect writes that the reader is to continue at once, here or at another gateway.
	reconnect(e *sse, why string)
}

// native is the dialect of /api.
type native struct{}

func (native) begin(e *sse, at stream.Cursor) {
	if at.Position != 0 {
		_, _ = e.out.WriteString("id: " + at.String() + "\n\n")
	}
}

func (native) trouble(e *sse, p *Problem) { e.event("trouble", nil, jsonOf(p)) }

func (d native) stop(e *sse, p *Problem) { d.trouble(e, p) }

func (native) reconnect(e *sse, why string) {
	_, _ = e.out.WriteString("retry: 500\n")
	e.event("reconnect", nil, jsonOf(map[string]string{"reason": why}))
}

// silent is the part of a dialect that has no words for what is not of the session.
type silent struct{}

func (silent) begin(*sse, stream.Cursor) {}

func (silent) trouble(*sse, *Problem) {}

func (e *sse) put(ev stream.Event) { e.last = e.last || e.speaks.show(e, ev) }

// cutAfter is how many times its patience a write may take before the connection is cut.
const cutAfter = 3

func (e *sse) event(kind string, place *stream.Cursor, data []byte) {
	if place != nil {
		_, _ = e.out.WriteString("id: ") // Flush reports the error
		_, _ = e.out.WriteString(place.String())
		_ = e.out.WriteByte('\n')
	}
	_, _ = e.out.WriteString("event: ")
	_, _ = e.out.WriteString(kind)
	_, _ = e.out.WriteString("\ndata: ")
	_, _ = e.out.Write(data)
	_, _ = e.out.WriteString("\n\n")
}

// data writes an event that has only data.
func (e *sse) data(v any) {
	_, _ = e.out.WriteString("data: ") // Flush reports the error
	_, _ = e.out.Write(jsonOf(v))
	_, _ = e.out.WriteString("\n\n")
}

// done writes the end of a stream of data.
func (e *sse) done() { _, _ = e.out.WriteString("data: [DONE]\n\n") }

// begin begins to write. A reader that does not read at all is cut off.
func (e *sse) begin() {
	e.began = time.Now()
	_ = e.rc.SetWriteDeadline(e.began.Add(cutAfter * e.slow)) // every connection has deadlines
}

// flush sends what was written since begin. A reader that made that wait is slow.
func (e *sse) flush() error {
	err := e.out.Flush()
	if err == nil {
		err = e.rc.Flush()
	}
	e.late = time.Since(e.began) > e.slow
	return err //nolint:wrapcheck // only whether there is one counts
}

func (native) show(e *sse, ev stream.Event) (last bool) {
	switch {
	case ev.Entry != nil:
		data, err := audit.EntryJSON(*ev.Entry)
		if err != nil {
			data = jsonOf(problem(http.StatusInternalServerError, "unreadable", err.Error(), "a newer gateway can read the entry"))
		}
		e.event("entry", &ev.Cursor, data)
		if d, ok := events.DeletionOf(ev.Entry.Entry); ok {
			e.event("end", nil, jsonOf(map[string]string{"reason": d.String()}))
			return true
		}
	case ev.Piece != nil:
		e.event("piece", &ev.Cursor, jsonOf(ev.Piece))
	case ev.Void != nil:
		e.event("void", &ev.Cursor, jsonOf(ev.Void))
	default:
		kind := "progress"
		switch any(ev.Live).(type) {
		case events.Refused:
			kind = "refused"
		case events.StateChanged:
			return false // entries say it
		}
		if data, err := events.MarshalEvent(ev.Live); err == nil {
			e.event(kind, nil, data)
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
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	e := &sse{out: bufio.NewWriter(w), rc: http.NewResponseController(w), slow: g.limits.Patience, speaks: speaks}
	_ = e.rc.SetReadDeadline(time.Time{}) // nothing more is read, and a deadline would end the request
	e.begin()
	w.WriteHeader(http.StatusOK)
	speaks.begin(e, f.place)
	if e.flush() != nil {
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
	e.begin()
	e.speaks.reconnect(e, why)
	_ = e.flush()
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
			e.begin()
			_, _ = e.out.WriteString(": \n\n")
			if g.disconnected() {
				e.speaks.trouble(e, noNATS())
			}
		case h := <-all:
			e.begin()
			if g.take(ctx, e, s, h) {
				return
			}
			for more := true; more && e.out.Available() > 0; { // what has arrived meanwhile goes with it
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
		if e.flush() != nil {
			return
		}
		if e.late {
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
		_ = e.flush()
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
