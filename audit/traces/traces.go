package traces

import (
	"context"
	"fmt"
	"iter"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/recent"
)

// Span is a span that has ended. It has no resource.
type Span = tracetest.SpanStub

// Config configures a Tracer.
type Config struct {
	// Read returns the journal of a session from its first entry on. It is required.
	Read func(context.Context, content.SessionID) iter.Seq2[journal.Record, error]

	// Sampler decides which turns have spans. Nil: all but those of senders whose traces are not sampled.
	Sampler sdk.Sampler

	Content  bool // spans have arguments, results and replies
	Sessions int  // how many sessions are remembered at a time; 0: 10,000
}

const defaultSessions = 10_000

// Tracer makes the spans of all sessions.
type Tracer struct {
	cfg  Config
	open recent.Map[content.SessionID, *session]
}

// New returns a tracer.
func New(cfg Config) *Tracer {
	if cfg.Sampler == nil {
		cfg.Sampler = sdk.ParentBased(sdk.AlwaysSample())
	}
	if cfg.Sessions <= 0 {
		cfg.Sessions = defaultSessions
	}
	return &Tracer{cfg: cfg}
}

// Add processes the next entry of the deployment and returns the spans that end with it. It returns an error if reading
// a journal again fails; then add the entry again.
func (t *Tracer) Add(ctx context.Context, r journal.Record) ([]Span, error) {
	id := r.Entry.Session
	s, ok := t.open.Get(id)
	if !ok {
		s = &session{id: id, cfg: &t.cfg, calls: map[content.CallID]*call{}}
		if r.Seq > 1 {
			for old, err := range t.cfg.Read(ctx, id) {
				if err != nil {
					return nil, fmt.Errorf("trace %s: %w", id, err)
				}
				if old.Guard >= r.Guard {
					break
				}
				s.add(ctx, old)
			}
		}
	}
	if _, deleted := events.DeletionOf(r.Entry); deleted {
		t.open.Remove(id)
		return nil, nil
	}
	spans := s.add(ctx, r)
	t.open.Put(id, s)
	if t.open.Len() > t.cfg.Sessions {
		oldest, _ := t.open.Oldest()
		t.open.Remove(oldest)
	}
	return spans, nil
}
