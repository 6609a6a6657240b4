package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// Agent is an immutable configuration that starts any number of sessions. It is
// safe for concurrent use.
type Agent struct {
	cfg    Config
	runner *engine.Runner
	facts  events.Config // without the catalog
}

// New checks the configuration. It returns a *ConfigError or a *TranscriptError
// that names the problem.
func New(c Config) (*Agent, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: c, runner: engine.NewRunner(engine.Config{
		Permissions: c.Permissions, Resources: c.Resources, Hooks: c.Hooks, Mutators: c.Mutators,
		Notes: c.Memory, Durable: c.Durable, Manager: c.TaskManager, Blobs: c.Blobs, Logger: c.Logger,
	})}
	parallel, err := c.TaskManager.Parallel(c.MaxParallel)
	if err != nil {
		return nil, &ConfigError{"MaxParallel", err.Error()}
	}
	hooks, mutators := a.runner.Registrations()
	a.facts = events.Config{
		Model: c.Model.Name(), Agent: c.Agent, Tools: c.Offered, Rules: c.Rules, Routes: c.Routes, MaxParallel: parallel, FailRun: c.OnToolError == FailRun,
		Hooks: hooks, Mutators: mutators, Limits: c.Limits, SessionLimits: c.SessionLimits, Retry: c.Retry, Cache: c.Cache, Output: c.Output,
		ApprovalTTL: c.ApprovalTTL,
	}
	if a.facts, err = digested(a.facts); err != nil {
		return nil, err
	}
	return a, nil
}

// digested returns the configuration with its digest, which identifies it.
func digested(c events.Config) (events.Config, error) {
	c.Digest = ""
	raw, err := json.Marshal(c)
	if err != nil {
		return c, fmt.Errorf("agent config: %w", err)
	}
	sum := sha256.Sum256(raw)
	c.Digest = hex.EncodeToString(sum[:])
	return c, nil
}

// SessionConfig describes the session to start.
type SessionConfig struct {
	ID       content.SessionID   // "": a new one; a session in the journal is continued
	Metadata content.Metadata    // nil: none
	Cache    *model.CacheRequest // nil: Config.Cache
	Parent   content.SessionID   // "": none; the session that a new session works for; recorded
	// Resume is the snapshot that a new session begins with, or nil. Its transcript, pending input and
	// cache override replace Config.Transcript and Config.Input. An open round continues: calls that
	// waited, for an approval or for others, are checked by this agent's policies, which ask again, and
	// a yield is returned again. Running calls, the usage of limits and an open task stay with the
	// snapshot's own session; running calls get the result unknown. Start refuses a session that is in
	// the journal already: start it without Resume.
	Resume *session.Snapshot
	Tools  tool.Source // nil: none; tools for this session only; they replace the agent's tools of the same names; a *tool.Registry may change between steps
}

// Start claims the session and returns it. The process that drove it before is fenced: its next
// write fails. Start opens a session that is not in the journal, and resumes one that is.
func (a *Agent) Start(ctx context.Context, s SessionConfig) (*session.Session, error) {
	return a.start(ctx, s, nil)
}

// start is Start for a session that works for a caller; nil: none.
func (a *Agent) start(ctx context.Context, s SessionConfig, caller session.Parent) (*session.Session, error) {
	d, err := a.drive(ctx, s, caller)
	if err != nil {
		return nil, err
	}
	return session.New(d, session.Config{Approver: a.cfg.Approver}), nil
}

// drive claims the session and returns its driver. Besides its own limits, the session may use no
// more than the caller has left, and may do only what the policy allows the caller.
func (a *Agent) drive(ctx context.Context, s SessionConfig, caller session.Parent) (*driver, error) {
	if s.ID == "" {
		s.ID = content.SessionID(ulid.Make().String())
	}
	if _, err := content.ParseSessionID(string(s.ID)); err != nil {
		return nil, &ConfigError{"SessionConfig.ID", err.Error()}
	}
	d := &driver{
		agent: a, log: a.cfg.Logger.Named("driver").With(logfield.Session(s.ID)),
		news: make(chan struct{}, 1), begun: make(map[content.Place]bool), sources: a.cfg.Tools,
		observers: engine.Observers{Session: s.ID, Events: a.cfg.Observers, Items: a.cfg.TranscriptObservers},
		watcher:   session.Watcher{Applied: func(*loop.State, journal.Record) {}, Live: func(events.Event) {}, Stopped: func() {}},
	}
	d.observers.Log = d.log
	switch {
	case s.Tools == nil:
	case a.cfg.Collision == tool.LastWins:
		d.sources = append(slices.Clip(d.sources), s.Tools)
	default:
		d.sources = slices.Concat([]tool.Source{s.Tools}, d.sources)
	}
	var within events.Limits
	if caller != nil {
		within, d.callers = caller.Left(), caller.Subjects()
	}
	var err error
	if d.facts, err = narrowed(a.facts, s, within); err != nil {
		return nil, err
	}
	d.performer = engine.NewPerformer(context.WithoutCancel(ctx), d.perform, due, d.panicked)
	if err := d.begins(ctx, s); err != nil {
		d.performer.Cancel(err)
		return nil, fmt.Errorf("start %s: %w", s.ID, err)
	}
	return d, nil
}

// narrowed returns the agent's configuration for one session.
func narrowed(c events.Config, s SessionConfig, within events.Limits) (events.Config, error) {
	if s.Cache != nil {
		c.Cache = s.Cache
	}
	if within == (events.Limits{}) {
		return c, nil
	}
	c.SessionLimits = c.SessionLimits.And(within)
	return digested(c)
}

// begins claims the session, unless a hook refuses it.
func (d *driver) begins(ctx context.Context, s SessionConfig) error {
	if err := d.hydrate(ctx, s.ID); err != nil {
		return err
	}
	answer, err := d.admit(ctx, s)
	if err != nil {
		return err
	}
	if err := d.open(ctx, s); err != nil {
		return err
	}
	return d.recordHooks(ctx, answer)
}

// admit runs the hooks of the session's start before anything is recorded.
func (d *driver) admit(ctx context.Context, s SessionConfig) (commands.HookAnswer, error) {
	if s.Resume != nil && d.state.Opened {
		return commands.HookAnswer{}, &ConfigError{"SessionConfig.Resume", "begins a new session, and the journal knows this one"}
	}
	a := d.agent.runner.Hooks(ctx, extension.HookEvent{Point: extension.SessionStart, Session: s.ID})
	if a.Action == extension.Terminate.String() {
		return a, &session.HookTerminatedError{Point: extension.SessionStart, Hook: a.Hook, Reason: a.Reason}
	}
	return a, nil
}

// recordHooks records the answers of the hooks of the session's start or end.
func (d *driver) recordHooks(ctx context.Context, a commands.HookAnswer) error {
	return d.decide(ctx, ulid.Make().String(), commands.ReportHooks{Answer: a})
}

// hydrate folds the session's journal.
func (d *driver) hydrate(ctx context.Context, id content.SessionID) error {
	read, err := engine.Reader{Journal: d.agent.cfg.Journal}.Read(ctx, id)
	d.newSession(read)
	return err
}

// open claims the session and starts it if it is new.
func (d *driver) open(ctx context.Context, s SessionConfig) error {
	claim := commands.Claim{Node: "in-process", Config: &d.facts}
	for _, e := range loop.Pending(d.state) {
		if t, ok := e.(loop.RunTool); ok {
			claim.Lost = append(claim.Lost, t.Call.Place)
		}
	}
	if err := d.decide(ctx, ulid.Make().String(), claim); err != nil {
		return err
	}
	if !d.state.Opened {
		open := commands.OpenSession{
			Config: d.facts, Transcript: d.agent.cfg.Transcript, Input: d.agent.cfg.Input, Stepped: true, Metadata: s.Metadata, Parent: s.Parent,
		}
		for _, c := range resumed(open, s.Resume) {
			if err := d.decide(ctx, ulid.Make().String(), c); err != nil {
				return err
			}
		}
	}
	d.log.Info("session started", logfield.Seq(d.state.Seq), zap.Uint64("epoch", d.state.Epoch))
	return nil
}

// resumed returns the commands that open a new session, which begins with the snapshot if there is
// one.
func resumed(open commands.OpenSession, from *session.Snapshot) []commands.Command {
	if from == nil {
		return []commands.Command{open}
	}
	open.From, open.Input = from.From(), from.PendingInput
	open.Transcript, open.Resume = from.Continuation()
	if from.NextCache == nil {
		return []commands.Command{open}
	}
	return []commands.Command{open, commands.SetNextTurnCache{Cache: *from.NextCache}}
}
