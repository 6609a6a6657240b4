package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/policy/agentfile"
)

func (g *Gateway) fleetRoutes() {
	handle(g, op(http.MethodGet, "/api/me", "Show who you are and what you may do", http.StatusOK), g.me)
	handle(g, op(http.MethodGet, "/api/agents", "List the published agents that you may open sessions of", http.StatusOK), g.agents)
	handle(g, op(http.MethodGet, "/api/models", "List the model providers and the default model", http.StatusOK), g.models)
	handle(g, op(http.MethodGet, "/api/tools", "List the tools that workers offer", http.StatusOK), g.tools)
	handle(g, op(http.MethodGet, "/api/workers", "List the workers and their queues", http.StatusOK, 403), g.workers)
	handle(g, op(http.MethodGet, "/api/queues", "Show the load of queues and nodes", http.StatusOK, 403), g.queues)
	handle(g, op(http.MethodGet, "/api/stuck", "Show which calls and sessions make no progress, and what to do", http.StatusOK, 403), g.stuck)
}

type meOut struct {
	Body struct {
		Name   string   `json:"name"`
		Role   string   `json:"role"`
		Agents []string `json:"agents" doc:"patterns of the agents that the role covers; none: all"`
		Leave  bool     `json:"may_leave" doc:"whether POST /logout logs a browser out"`
	}
}

func (g *Gateway) me(ctx context.Context, _ *struct{}) (*meOut, error) {
	p, out := person(ctx), &meOut{}
	out.Body.Name, out.Body.Role, out.Body.Agents = p.Name, string(p.Role), append([]string{}, p.Agents...)
	out.Body.Leave = !g.cfg.Access.Open
	return out, nil
}

type agentRow struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
}

type agentsOut struct {
	Body struct {
		Agents []agentRow `json:"agents"`
	}
}

func (g *Gateway) agents(ctx context.Context, _ *struct{}) (*agentsOut, error) {
	all, err := g.client.Agents(ctx)
	if err != nil {
		return nil, err
	}
	out := &agentsOut{}
	out.Body.Agents = []agentRow{}
	for _, a := range all {
		if !person(ctx).MayOpen(a.Name) {
			continue
		}
		row := agentRow{Name: a.Name, Version: a.Version}
		if d, err := agentfile.Parse(a.Name, a.Data, nil); err == nil {
			row.Description = d.Description
		}
		out.Body.Agents = append(out.Body.Agents, row)
	}
	return out, nil
}

type modelsOut struct {
	Body struct {
		Default   string     `json:"default" doc:"the model of sessions that name neither a model nor an agent; absent if the default is an agent"`
		Providers []provider `json:"providers"`
	}
}

// provider is a provider of models. Only nodes have its keys.
type provider struct {
	Provider string   `json:"provider"`
	Usage    string   `json:"usage" doc:"how to write the names of its models"`
	Options  []string `json:"options,omitempty"`
}

func (g *Gateway) models(context.Context, *struct{}) (*modelsOut, error) {
	out := &modelsOut{}
	out.Body.Default, out.Body.Providers = g.cfg.Defaults.Model, []provider{}
	for _, p := range registry.Providers() {
		out.Body.Providers = append(out.Body.Providers, provider{p.Name, p.Usage, p.Options})
	}
	return out, nil
}

type toolRow struct {
	Name        string          `json:"name"`
	Worker      string          `json:"worker"`
	Queue       string          `json:"queue"`
	Effects     content.Effects `json:"effects" doc:"what happens when a call runs twice"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
}

type toolsOut struct {
	Body struct {
		Tools []toolRow `json:"tools"`
	}
}

func (g *Gateway) tools(ctx context.Context, _ *struct{}) (*toolsOut, error) {
	offers, err := g.client.Offers(ctx)
	if err != nil {
		return nil, err
	}
	out := &toolsOut{}
	out.Body.Tools = []toolRow{}
	for _, o := range offers {
		for _, t := range o.Tools {
			if t.Name != loop.VerifierTool {
				out.Body.Tools = append(out.Body.Tools, toolRow{t.Name, o.Worker, o.Queue, t.Effects, t.Description, t.InputSchema})
			}
		}
	}
	slices.SortFunc(out.Body.Tools, func(a, b toolRow) int { return strings.Compare(a.Name+" "+a.Worker, b.Name+" "+b.Worker) })
	return out, nil
}

type workerRow struct {
	Worker string   `json:"worker"`
	Queue  string   `json:"queue"`
	Tools  []string `json:"tools"`
}

type workersOut struct {
	Body struct {
		Workers []workerRow `json:"workers"`
	}
}

func (g *Gateway) workers(ctx context.Context, _ *struct{}) (*workersOut, error) {
	if !person(ctx).MayOperate() {
		return nil, problem.MayNot("see the workers")
	}
	offers, err := g.client.Offers(ctx)
	if err != nil {
		return nil, err
	}
	out := &workersOut{}
	out.Body.Workers = []workerRow{}
	for _, o := range offers {
		row := workerRow{Worker: o.Worker, Queue: o.Queue, Tools: []string{}}
		for _, t := range o.Tools {
			row.Tools = append(row.Tools, t.Name)
		}
		out.Body.Workers = append(out.Body.Workers, row)
	}
	return out, nil
}

type queuesOut struct {
	Body struct {
		Queues   []admin.QueueReport `json:"queues"`
		Nodes    int                 `json:"nodes"`
		Sessions admin.SessionCounts `json:"sessions"`
	}
}

func (g *Gateway) queues(ctx context.Context, _ *struct{}) (*queuesOut, error) {
	b, err := examined(ctx, g.cfg.Backlog)
	out := &queuesOut{}
	out.Body.Queues, out.Body.Nodes, out.Body.Sessions = b.QueueReports(), b.Nodes, b.Sessions
	return out, err
}

type stuckOut struct {
	Body struct {
		Findings []report.Finding `json:"findings" doc:"errors first"`
	}
}

// stuckAge is how long findings are reused: an examination is expensive, and the page of every operator requests it.
const stuckAge = 5 * time.Second

func (g *Gateway) stuck(ctx context.Context, _ *struct{}) (*stuckOut, error) {
	examine := g.cfg.Stuck
	if examine != nil {
		examine = func(ctx context.Context) ([]report.Finding, error) { return g.findings.Get(ctx, stuckAge, g.cfg.Stuck) }
	}
	all, err := examined(ctx, examine)
	out := &stuckOut{}
	out.Body.Findings = append([]report.Finding{}, all...)
	return out, err
}

// examined runs an examination of the deployment for an operator, and refuses anyone else.
func examined[T any](ctx context.Context, examine func(context.Context) (T, error)) (seen T, err error) {
	switch {
	case !person(ctx).MayOperate():
		return seen, problem.MayNot("see the state of the deployment")
	case examine == nil:
		return seen, problem.New(http.StatusNotFound, "not_found", "this gateway cannot read the state of the deployment", "use turnlog top and turnlog doctor")
	}
	seen, err = examine(ctx)
	if _, denied := jetstream.Denied(err); denied {
		err = problem.New(http.StatusForbidden, "not_permitted", "the gateway's NATS user may not see queues, nodes and stuck sessions",
			"use turnlog top and turnlog doctor as another NATS user, or give the gateway's user the role doctor: see docs/gateway.md")
	}
	return seen, err
}
