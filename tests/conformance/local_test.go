package conformance

import (
	"context"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

func inProcessShapes() []shape {
	return []shape{
		{name: "simple", open: inProcess(func(config) task.Manager { return task.Simple() })},
		{name: "async", open: inProcess(func(c config) task.Manager { return task.Async(task.AsyncConfig{Quiet: c.NotifyOnly}) })},
	}
}

// inProcess returns a session in this process with a task manager.
func inProcess(manager func(config) task.Manager) func(*testing.T, context.Context, *scenario, *workshop) hosted {
	return func(t *testing.T, ctx context.Context, sc *scenario, w *workshop) hosted {
		t.Helper()
		m, err := sc.model(sc.name, []byte(sc.Script))
		if err != nil {
			t.Fatal(err)
		}
		f := sc.Config.facts()
		c := agent.Config{
			Model: m, SystemPrompt: sc.Config.System, Transcript: sc.Config.transcript(),
			Tools: []tool.Source{w.tools}, Policy: sc.policy(), Permissions: w, Rules: f.Rules, Routes: f.Routes,
			TaskManager: manager(sc.Config), MaxParallel: f.MaxParallel,
			Hooks: w.hooks(sc), Mutators: mutators(t, sc), Memory: memory(sc), Root: w.root,
			Limits: f.Limits, SessionLimits: f.SessionLimits, Retry: f.Retry, Cache: f.Cache, Output: f.Output,
			Journal: journal.NewMemory(),
		}
		if f.FailRun {
			c.OnToolError = agent.FailRun
		}
		if sc.Agent != "" {
			kit := agentfile.Kit{
				Models: func(string, []byte) (model.Model, error) { return m, nil },
				Tools:  []tool.Source{w.tools}, Policy: sc.policy(), Permissions: w, Root: w.root, Folder: w.root, Journal: c.Journal,
			}
			if c, err = sc.definition(t).Agent(ctx, kit); err != nil {
				t.Fatal(err)
			}
			c.TaskManager = manager(sc.Config)
		}
		a, err := agent.New(c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := a.Start(ctx, agent.SessionConfig{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		fork := func(of *loop.State, head journal.Head) (*session.Session, error) {
			snap := session.SnapshotOf(of, head.Hash)
			return a.Start(ctx, agent.SessionConfig{ID: forkID(head), Resume: &snap})
		}
		return hosted{d, c.Journal, fork, func() { _ = d.Close(context.WithoutCancel(ctx)) }} // nothing to save
	}
}
