package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/client/seek"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

func (g *Gateway) recordRoutes() {
	handle(g, op(http.MethodGet, "/api/sessions/{id}/transcript", "Show the transcript of a session, as models see it", http.StatusOK, 404, 410), g.transcript)
	handle(g, op(http.MethodGet, "/api/sessions/{id}/entries", "Read entries of a session's journal, page by page", http.StatusOK, 404, 410), g.entries)
	handle(g, op(http.MethodGet, "/api/sessions/{id}/verify", "Verify a session's journal", http.StatusOK, 404, 410), g.verify)
	handle(g, op(http.MethodGet, "/api/usage", "Sum the usage of the sessions that you may see", http.StatusOK), g.usage)
	o := op(http.MethodGet, "/api/sessions/{id}/export", "Export a session's journal, for \"observer verify --file\"", http.StatusOK, 404, 410)
	o.Responses["200"] = text("lines of JSON", "application/jsonl")
	huma.Register(g.api, o, g.export)
}

type transcriptIn struct {
	SessionPath

	Before int `query:"before" minimum:"0" doc:"only items before this position; 0: all"`
	Limit  int `query:"limit" minimum:"0" doc:"only the newest items, at most this number; 0: all"`
}

type transcriptOut struct {
	Body struct {
		Items  []json.RawMessage `json:"items" doc:"in order: each has kind and parts"`
		From   int               `json:"from" doc:"the position of the first item: how many are before it"`
		Queued []json.RawMessage `json:"queued" doc:"input that is not yet part of the transcript"`
		Cursor string            `json:"cursor" doc:"where GET …/events?after= continues without a gap"`

		Changed map[content.CallID]report.Change `json:"changed" doc:"by call ID: the arguments that a person changed; the items have the model's"`
	}
}

func (g *Gateway) transcript(ctx context.Context, in *transcriptIn) (*transcriptOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &transcriptOut{}
	out.Body.Cursor = cursorOf(s).String()
	all := s.state.Transcript
	if in.Before > 0 {
		all = all[:min(in.Before, len(all))]
	}
	if in.Limit > 0 {
		out.Body.From = max(0, len(all)-in.Limit)
	}
	var queued []content.Item
	for _, q := range s.state.Queue {
		queued = append(queued, q.Items...)
	}
	shown := all[out.Body.From:]
	if out.Body.Items, err = viewsOf(shown); err == nil {
		out.Body.Queued, err = viewsOf(queued)
	}
	if err == nil {
		out.Body.Changed, err = g.callsOf(s).Changed(ctx, shown)
	}
	return out, err
}

func viewsOf(items []content.Item) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	for _, it := range items {
		view, err := events.MarshalView(it)
		if err != nil {
			return nil, err
		}
		all = append(all, view)
	}
	return all, nil
}

type entriesIn struct {
	SessionPath

	After uint64 `query:"after" doc:"only entries after this number"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type entriesOut struct {
	Body struct {
		Entries []json.RawMessage `json:"entries" doc:"as in the lines of an export, but without the exact bytes"`
		Next    string            `json:"next,omitempty" doc:"the cursor after the last entry, for GET …/events?after="`
	}
}

func (g *Gateway) entries(ctx context.Context, in *entriesIn) (*entriesOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &entriesOut{}
	out.Body.Entries = []json.RawMessage{}
	var after journal.Record
	if in.After > 0 {
		if after, err = seek.Entry(ctx, g.client, s.state.Session, s.head, in.After); isNotFound(err) { // no entries follow
			return out, nil
		}
	}
	if err != nil {
		return nil, err
	}
	for rec, err := range g.client.RecordsFrom(ctx, s.state.Session, after.Head) {
		if err != nil {
			return nil, err
		}
		line, err := audit.EntryJSON(rec)
		if err != nil {
			return nil, err
		}
		out.Body.Entries = append(out.Body.Entries, line)
		out.Body.Next = stream.Cursor{Entry: rec.Seq}.String()
		if len(out.Body.Entries) == in.Limit {
			break
		}
	}
	return out, nil
}

type verifyOut struct {
	Body struct {
		OK      bool             `json:"ok"`
		Verdict *verdict.Verdict `json:"verdict"`
	}
}

func (g *Gateway) verify(ctx context.Context, in *SessionPath) (*verifyOut, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	v, err := audit.Verify(g.client.Records(ctx, s.state.Session, 0))
	if err != nil {
		return nil, err
	}
	out := &verifyOut{}
	out.Body.OK, out.Body.Verdict = v.OK(), v
	return out, nil
}

// exportTime limits the time of an export to a slow reader.
const exportTime = 10 * time.Minute

func (g *Gateway) export(ctx context.Context, in *SessionPath) (*huma.StreamResponse, error) {
	s, err := g.see(ctx, in.ID)
	if err != nil {
		return nil, g.problemOf(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) { //nolint:contextcheck // it uses the request's context
		r, w := humago.Unwrap(hc)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTime)) // every connection supports deadlines
		w.Header().Set("Content-Type", "application/jsonl")
		w.Header().Set("Content-Disposition", `attachment; filename="`+string(s.state.Session)+`.jsonl"`)
		err := audit.Export(w, g.client.Records(r.Context(), s.state.Session, 0))
		if err != nil && r.Context().Err() == nil {
			g.log.Warn("export cut off", zap.Error(err))
			panic(http.ErrAbortHandler) // shows the reader that the export is incomplete
		}
	}}, nil
}

type usageIn struct {
	From report.Day `query:"from" format:"date" doc:"the first day, in UTC; without it, all days"`
	To   report.Day `query:"to" format:"date" doc:"the last day"`
}

type usageOut struct{ Body report.Spending }

func (g *Gateway) usage(ctx context.Context, in *usageIn) (*usageOut, error) {
	p := person(ctx)
	all, err := g.index.Usage(ctx, g.client, report.Period(*in), func(s report.Summary) bool { return p.MaySee(listedAs(s)) }, g.logUnlisted)
	return &usageOut{all}, err
}

// unlisted handles an error about one session of a list. It returns nil if the list can continue without that session, and
// logs the error unless the session does not exist or is deleted.
func (g *Gateway) unlisted(ctx context.Context, err error) error {
	switch p := problem.Of(err, true); {
	case err == nil:
	case ctx.Err() != nil, g.disconnected():
		return err
	case p == nil || p.Status != http.StatusNotFound && p.Status != http.StatusGone:
		g.logUnlisted(err)
	}
	return nil
}
