package main

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit/traces"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/cli/otlp"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream"
)

func newTracesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "traces",
		Short: "Export the traces of all sessions to an OpenTelemetry collector",
		Long: `Follows the journals of all sessions and exports what happened as OpenTelemetry spans, over OTLP and HTTP:
one trace per turn, with a span for each attempt of a model call or a tool call. The names are those of the
semantic conventions for generative AI. Spans come from the journal, so they never delay a session, and none is
lost while the collector is unavailable: the command waits for it, and continues where it stopped.

The collector is that of OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318. The other variables of the OTLP
exporter, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES also apply. A turn whose sender was traced is exported
if the sender's trace is sampled. --sample sets the share of all other turns; without it, OTEL_TRACES_SAMPLER and
OTEL_TRACES_SAMPLER_ARG set it.

With --cursor it stores its position in a file, and continues from there when it is started again; --from applies
only to the first start. Without --from it starts at the end. Every span is exported at least once, each time with
the same ID. A batch that the collector rejects as invalid is logged and dropped.

With --once it ends when it has exported the entries that existed when it started.`,
		Example: `  observer traces --cursor traces.cursor
  OTEL_EXPORTER_OTLP_ENDPOINT=https://collector:4318 observer traces --sample 0.1
  observer traces --once --from 1 --trace-content`,
	}
	t := tracing{app: a}
	t.register(cmd, "end when all existing entries are exported")
	cmd.Flags().BoolVar(&t.content, "trace-content", false, "also export arguments, results and replies")
	cmd.Flags().Float64Var(&t.sample, "sample", 1, "`share` of the turns of untraced senders to export, from 0 to 1")
	t.http = ops.AddressFlag(cmd)
	settings.Lasts(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(t.sample >= 0 && t.sample <= 1) { // not a number is neither
			return cli.Usage("--sample %v: the share is between 0 and 1", t.sample)
		}
		var err error
		if t.sampler, err = otlp.Sampler(); err != nil {
			return cli.Usage("%w", err)
		}
		if t.sampler == nil || cmd.Flags().Changed("sample") {
			t.sampler = sdk.ParentBased(sdk.TraceIDRatioBased(t.sample))
		}
		return a.with(cmd, func(cell *cli.Cell) error { return t.run(cmd, cell) })
	}
	return cmd
}

// tracing is what the command line asks for.
type tracing struct {
	following

	app     *app
	content bool
	sample  float64
	sampler sdk.Sampler
	http    *string
}

func (t *tracing) run(cmd *cobra.Command, cell *cli.Cell) error {
	registry := ops.NewRegistry()
	log := t.app.log.Logger(cmd.ErrOrStderr(), t.app.getenv)
	out, err := newCollector(cmd.Context(), registry, log)
	if err != nil {
		return err
	}
	defer func() { _ = out.exporter.Shutdown(context.WithoutCancel(cmd.Context())) }() // everything was exported
	t.measure(cmd.Context(), cell, registry)
	server, err := ops.Listen(cmd.Context(), *t.http, registry, cell.Ready(func() error { return nil }), log)
	if err != nil {
		return err
	}
	return cell.Work(cmd.Context(), server.Run, func(ctx context.Context) error { return t.follow(ctx, cell, out) })
}

const (
	maxSpans   = 512             // exported at a time
	maxDelay   = time.Second     // how long a span waits for others
	lastExport = 5 * time.Second // how long the end waits for the collector

	minRetry = 100 * time.Millisecond
	maxRetry = 10 * time.Second
)

// follow exports the spans of the entries from the cursor on.
func (t *tracing) follow(ctx context.Context, cell *cli.Cell, out *collector) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()
	at, end, err := t.begin(ctx, cell)
	if err != nil || t.once && at.Position >= end.Position {
		return err
	}
	tracer := traces.New(traces.Config{Content: t.content, Read: whole(cell), Sampler: t.sampler})
	all := make(chan update)
	ended := source(ctx, &sources, batched(ctx, cell.Journal(), at), all)
	err = export(ctx, all, ended, end.Position, tracer, out, &t.cursor)
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Cause(ctx))) {
		return t.stopped(ctx)
	}
	return err
}

// batched yields the entries after a cursor, and periodically the entries written since. Following them live would wake the server
// and this process for each entry, which would slow down sessions on the same machine.
func batched(ctx context.Context, j *jetstream.Journal, at jetstream.Cursor) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for first := true; first || pause.For(ctx, maxDelay); first = false {
			end, known := j.End(ctx, jetstream.AllSessions) // if the server is away, Observe waits for it
			if known == nil && end.Position == at.Position && end.Hash == at.Hash {
				continue
			}
			for rec, err := range j.Observe(ctx, jetstream.AllSessions, at) {
				if !yield(rec, err) || err != nil {
					return
				}
				if at = jetstream.CursorAt(rec); known != nil || rec.Guard >= end.Position {
					break
				}
			}
		}
	}
}

// export exports the spans of updates until ended receives the reason for the end, or until the entry at a position, if
// that is not 0. The cursor is stored when everything before it was exported.
func export(
	ctx context.Context, all <-chan update, ended <-chan error, last uint64, tracer *traces.Tracer, out *collector, cursor *bookmark,
) error {
	flush := func(ctx context.Context) error {
		if err := out.flush(ctx); err != nil {
			return err
		}
		return cursor.store()
	}
	var due <-chan time.Time
	for done := false; !done; {
		select {
		case u := <-all:
			spans, err := tracer.Add(ctx, u.rec)
			if err != nil {
				return err
			}
			out.add(spans)
			cursor.move(jetstream.CursorAt(u.rec))
			if due == nil {
				due = time.After(maxDelay)
			}
			if done = last > 0 && u.rec.Guard >= last; !done && len(out.batch) < maxSpans {
				continue
			}
		case <-due:
		case err := <-ended:
			if ctx.Err() == nil {
				return err
			}
			bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), lastExport)
			defer stop()
			if err := flush(bounded); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil // the rest is exported at the next start
		}
		if err := flush(ctx); err != nil {
			return err
		}
		due = nil
	}
	return nil
}

// collector exports spans in batches.
type collector struct {
	exporter sdk.SpanExporter
	status   *lastStatus
	of       *resource.Resource
	log      *zap.Logger

	batch   []sdk.ReadOnlySpan
	results *prometheus.CounterVec
}

func newCollector(ctx context.Context, registry *prometheus.Registry, log *zap.Logger) (*collector, error) {
	on, err := otlp.Traces.On()
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	if !on {
		return nil, cli.Usage("OTEL_TRACES_EXPORTER or OTEL_SDK_DISABLED says that no traces are exported")
	}
	of, err := otlp.Resource(ctx, "turnlog")
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	at, err := otlp.Traces.Endpoint()
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	through, err := otlp.Traces.Client()
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	status := &lastStatus{to: through.Transport}
	through.Transport = status
	options := []otlptracehttp.Option{otlptracehttp.WithHTTPClient(through), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{})} // flush retries
	if at != "" {
		options = append(options, otlptracehttp.WithEndpointURL(at))
	}
	exporter, err := otlptrace.New(ctx, otlptracehttp.NewClient(options...))
	if err != nil {
		return nil, cli.Usage("the exporter of traces: %w", err)
	}
	c := &collector{exporter: exporter, status: status, of: of, log: log, results: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Namespace: "turnlog", Subsystem: "observer", Name: "spans_total", Help: "Spans, by result: exported, or dropped because the collector refused them.",
	}, []string{"result"})}
	for _, r := range []string{"exported", "dropped"} {
		c.results.WithLabelValues(r)
	}
	return c, nil
}

func (c *collector) add(spans []traces.Span) {
	for _, s := range spans {
		s.Resource, s.InstrumentationScope = c.of, instrumentation.Scope{Name: otlp.Scope}
		c.batch = append(c.batch, s.Snapshot())
	}
}

// flush exports the batch. It waits for an unavailable collector until ctx ends.
func (c *collector) flush(ctx context.Context) error {
	for wait := minRetry; len(c.batch) > 0; wait = min(2*wait, maxRetry) {
		err := c.exporter.ExportSpans(ctx, c.batch)
		result := "exported"
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && c.status.ok(): // it took some of them, and says why not all
			c.log.Warn("spans exported in part", zap.Int("spans", len(c.batch)), zap.Error(err))
		case err != nil && c.status.refused():
			c.log.Error("spans dropped: the collector refused them", zap.Int("spans", len(c.batch)), zap.Error(err))
			result = "dropped"
		case err != nil:
			c.log.Warn("spans not exported yet", zap.Int("spans", len(c.batch)), zap.Error(err))
			if !pause.For(ctx, wait) {
				return context.Cause(ctx)
			}
			continue
		}
		c.results.WithLabelValues(result).Add(float64(len(c.batch)))
		c.batch = nil
	}
	return nil
}

// lastStatus remembers the status of the last response, which the exporter's errors do not include.
type lastStatus struct {
	to   http.RoundTripper
	last atomic.Int64
}

// RoundTrip sends a request.
func (s *lastStatus) RoundTrip(r *http.Request) (*http.Response, error) {
	s.last.Store(0)
	resp, err := s.to.RoundTrip(r)
	if err == nil {
		s.last.Store(int64(resp.StatusCode))
	}
	return resp, err
}

// ok reports whether the collector answered that it was successful. The protocol forbids to send that request again.
func (s *lastStatus) ok() bool { return s.last.Load()/100 == 2 }

// refused reports whether the same request would be refused again.
func (s *lastStatus) refused() bool {
	switch s.last.Load() {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
