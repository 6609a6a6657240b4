package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/feed"
	"github.com/turnlog/turnlog/gateway/internal/oidc"
	"github.com/turnlog/turnlog/gateway/internal/page"
	"github.com/turnlog/turnlog/gateway/internal/pending"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/internal/traffic"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/internal/memo"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model/registry"
)

// Config configures what a gateway serves, and to whom.
type Config struct {
	Client    *client.Client
	Connected func() bool // whether the client has a server; nil: always
	Logger    *zap.Logger // nil: silent
	Version   string      // of the program

	Backlog func(context.Context) (admin.Backlog, error)    // the deployment's backlog; nil: unknown
	Stuck   func(context.Context) ([]report.Finding, error) // what is stuck, and what to do about it; nil: unknown

	// Defaults are the model or agent of a session that names neither.
	Defaults events.Config

	// Models checks the names of models, to refuse names that no node could use. nil: every name is accepted.
	Models *registry.Registry

	Access people.Access
	Limits Limits

	Metrics prometheus.Registerer // where the gateway registers its metrics; nil: nowhere
}

// Limits bound what one request may cost. Zero means the default.
type Limits struct {
	Answer    time.Duration // until a node has accepted a command; 30s
	Heartbeat time.Duration // between comments in a stream; 10s
	Patience  time.Duration // how long a write may wait for its reader, which then must reconnect; 5s
	File      int64         // bytes of a file; 100 MiB

	// Requests is how many requests a person may send per second, and Open how many may be open at once, including
	// streams. Each gateway counts separately. Zero: no limit.
	Requests float64
	Open     int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Answer: cmp.Or(l.Answer, 30*time.Second), Heartbeat: cmp.Or(l.Heartbeat, 10*time.Second),
		Patience: cmp.Or(l.Patience, 5*time.Second), File: cmp.Or(l.File, 100<<20), Requests: l.Requests, Open: l.Open,
	}
}

// Gateway serves a deployment over HTTP.
type Gateway struct {
	cfg     Config
	limits  Limits
	log     *zap.Logger
	client  *client.Client
	api     huma.API
	mux     *http.ServeMux
	handler http.Handler
	mcp     *mcpServers
	meter   *people.Meter
	login   *oidc.Provider // nil: none
	index   report.Index   // a cache: it saves reading sessions again
	feeds   feed.Server
	follows *client.Follows

	asked    pending.List
	findings *memo.Shared[[]report.Finding] // of the latest examination

	closing context.Context //nolint:containedctx // ends every stream when Serve ends
	close   context.CancelFunc
}

// New returns a gateway.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.Access.Check(); err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, limits: cfg.Limits.withDefaults(), log: cfg.Logger, client: cfg.Client, follows: client.NewFollows(cfg.Client), mux: http.NewServeMux(), findings: memo.NewShared[[]report.Finding]()}
	if g.log == nil {
		g.log = zap.NewNop()
	}
	g.meter = people.NewMeter(g.limits.Requests, g.limits.Open)
	if l := g.cfg.Access.Login(); l != nil {
		var err error
		if g.login, err = oidc.New(*l, g.cfg.Access.Dir, g.cfg.Access.HTTP); err != nil {
			return nil, errors.Join(people.ErrAccess, err)
		}
	}
	g.closing, g.close = context.WithCancel(context.Background())
	measured := traffic.New(cfg.Metrics)
	g.feeds = feed.Server{
		Open: measured.Streams, Slow: measured.Slow,
		Patience: g.limits.Patience, Heartbeat: g.limits.Heartbeat, Closing: g.closing.Done(), Problem: g.problemOf,
		Connected: func() bool { return !g.disconnected() },
	}
	spec := huma.DefaultConfig("Turnlog", cmp.Or(cfg.Version, "dev"))
	spec.Info.Description = "Durable sessions of AI agents, with their streams and approvals."
	spec.DocsPath, spec.SchemasPath, spec.CreateHooks = "", "", nil
	spec.Transformers = append(spec.Transformers, problem.Advise)
	spec.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	spec.Security = []map[string][]string{{"token": {}}}
	spec.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	for as, of := range map[reflect.Type]reflect.Type{ // their types in JSON
		reflect.TypeFor[content.Time]():    reflect.TypeFor[time.Time](),
		reflect.TypeFor[events.Hash]():     reflect.TypeFor[string](),
		reflect.TypeFor[huma.ErrorModel](): reflect.TypeFor[problem.Problem](),
	} {
		spec.Components.Schemas.RegisterTypeAlias(as, of)
	}
	g.api = humago.New(g.mux, spec)
	g.api.UseMiddleware(problem.Requests)
	g.routes()
	g.mux.HandleFunc("/", g.serveOther)
	g.handler = measured.Measure(g.mux, g.guard(g.mux))
	return g, nil
}

// schemaName names the schema of a type. It adds the package, since types of different packages can have the same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if dir, pkg := path.Split(t.PkgPath()); dir != "" && pkg != "gateway" && pkg != strings.ToLower(name) {
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	return name
}

// routes registers every operation.
func (g *Gateway) routes() {
	g.sessionRoutes()
	g.inputRoutes()
	g.approvalRoutes()
	g.eventRoutes()
	g.callRoutes()
	g.recordRoutes()
	g.fleetRoutes()
	g.openaiRoutes()
	g.uiRoutes()
	g.aguiRoutes()
	g.mcpRoutes()
	g.optional()
}

// optional makes a request body optional if all its fields are.
func (g *Gateway) optional() {
	spec := g.api.OpenAPI()
	for _, path := range spec.Paths {
		if o := path.Post; o != nil && o.RequestBody != nil {
			if of := o.RequestBody.Content["application/json"]; of != nil && len(spec.Components.Schemas.SchemaFromRef(of.Schema.Ref).Required) == 0 {
				o.RequestBody.Required = false
			}
		}
	}
}

// serveOther answers requests outside the API: it serves the page, and refuses everything else.
func (g *Gateway) serveOther(w http.ResponseWriter, r *http.Request) {
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && page.Serve(w, r) {
		return
	}
	refuse(w, r, problem.New(http.StatusNotFound, "not_found", r.Method+" "+r.URL.Path+" is not part of this API", "GET /openapi.json lists all endpoints"))
}

// ServeHTTP serves one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// OpenAPI returns the OpenAPI document of the API as JSON.
func (g *Gateway) OpenAPI() ([]byte, error) {
	return g.api.OpenAPI().MarshalJSON() //nolint:wrapcheck // cannot fail
}

// problemOf returns the problem of an error from lower packages. Only people who see all sessions learn why a session
// was deleted, because its owner is no longer known.
func (g *Gateway) problemOf(ctx context.Context, err error) *problem.Problem {
	p := problem.Of(err, !g.disconnected())
	switch {
	case p == nil:
		if ctx.Err() == nil {
			g.log.Error("request failed", zap.Error(err))
		}
		return problem.Internal(err)
	case p.Status == http.StatusGone && !person(ctx).MaySee(people.Subject{}):
		return problem.Gone("the session was deleted")
	}
	return p
}

func (g *Gateway) disconnected() bool { return g.cfg.Connected != nil && !g.cfg.Connected() }

// Limits of connections.
const (
	headerTime  = 10 * time.Second
	requestTime = 30 * time.Second // for a body; uploads have longer
	writeTime   = 2 * time.Minute  // for a response; streams and exports have their own
	idleTime    = 2 * time.Minute
	maxHeader   = 32 << 10
	leaveTime   = 5 * time.Second // for open requests when Serve ends
)

// Serve serves connections until ctx ends. It then tells the readers of streams to reconnect, to another gateway.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: g, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: g.limits.Answer + writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: zap.NewStdLog(g.log.Named("http")),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	g.close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		g.log.Warn("requests cut off", zap.Error(errors.Join(err, srv.Close())))
	}
	<-served //nolint:errcheck // http.ErrServerClosed
	g.mcp.end()
	return nil
}

// answering restarts the write timeout, for a response that took long to prepare.
func answering(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // every connection supports deadlines
}

// person returns who sent a request.
func person(ctx context.Context) *people.Person {
	p, _ := ctx.Value(personKey{}).(*people.Person)
	if p == nil {
		return &people.Person{} // no role: it may do nothing
	}
	return p
}

type personKey struct{}

// clientOf returns a client that sends commands in a person's name.
func (g *Gateway) clientOf(p *people.Person) *client.Client { return g.client.Named(p.Name) }
