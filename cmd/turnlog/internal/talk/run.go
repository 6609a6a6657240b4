// Package talk holds the commands that follow a turn: run, chat, task, send, wait,
// fork, eval and acp.
//
// A command uses package session like any other client. What it prints about a turn
// comes from the journal. Live deltas only make it appear sooner, so a command shows
// the same output whether it started the turn or joined it.
package talk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/deploy"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// talkFlags are the flags of run, chat and task. acp has some of them.
type talkFlags struct {
	app     *app.App
	session flags.Session
	tools   toolset.Flags
	files   fileFlag
	remote  *app.Remote
	timeout time.Duration
	seal    bool
	store   string // of this process's deployment; "": memory
	usual   bool   // the store is the default store of chats
	yes     bool
	given   func(flag string) bool
}

// ephemeral says what happens to the sessions of a process without --store.
const ephemeral = "sessions are not stored"

func (f *talkFlags) register(cmd *cobra.Command, a *app.App) {
	f.session.Register(cmd)
	f.registerHost(cmd, a, "`directory` for the sessions of this process, so that --session can continue them; default: "+ephemeral)
	f.files.register(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "cancel a turn after this `time`; 0: never")
	cmd.Flags().BoolVar(&f.seal, "seal", false, "encrypt the content of a new session with its own key, so that \"turnlog sessions erase\" can erase it; needs --seal-key")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "approve everything")
}

// registerHost adds only the flags that say where sessions run, and with which tools.
func (f *talkFlags) registerHost(cmd *cobra.Command, a *app.App, store string) {
	f.app, f.given = a, cmd.Flags().Changed
	cli.Group(cmd.Flags(), cli.ToolFlags, func() { f.tools.Register(cmd, toolset.DefaultSet) })
	cmd.Flags().StringVar(&f.store, "store", "", store)
	_ = cmd.MarkFlagDirname("store") // the flag exists
	f.remote = a.RemoteClient(cmd)
	app.ServerOptional(cmd, "everything runs in this process")
}

// Run returns the command that runs one turn.
func Run(a *app.App) *cobra.Command {
	var f talkFlags
	cmd := &cobra.Command{
		Use:   "run [PROMPT...]",
		Short: "Run one turn",
		Long: `Runs one turn and streams the replies to stdout and the tool calls to stderr. Without
arguments, or with "-", it reads the prompt from stdin.

If neither a flag nor NATS_URL or NATS_CONTEXT names a server, everything runs in this
process: a NATS server in memory, a driver node, and a worker whose tools can only read files
in --root. --store DIR keeps the sessions on disk, and --session ID continues one. With a
server, the turn runs on that deployment, with the tools of its workers.

Calls of read-only tools run without approval. All others need approval, unless --allow, --ask
or --deny says otherwise: the first rule whose pattern matches applies. At a terminal, the
command asks you. Otherwise it exits with 5 and prints how to decide. --yes approves
everything. In an existing session these flags, --limit and --route restrict only this turn,
but --allow lasts for the rest of the session.

--file attaches a file of up to 100 MiB; repeat it for more. Large files are stored in the
deployment and referenced in the journal. Models see at most 32 MiB, and only the names of the
other files.

The first interrupt cancels the turn; the second one exits immediately.

Exit codes: 0 the turn completed, 1 it failed, 2 wrong usage, 3 a limit ended it (including the
model's own token limit), 4 it was canceled or interrupted, 5 it waits for approval.

-o json prints one object when the turn has ended. -o jsonl prints every event of the
session as it is recorded, one per line, then {"result": that object}.`,
		Example: `  turnlog run "Which Go files here are the longest, and what do they do?"
  turnlog run --tools fs,shell --allow-write --root ./site "Fix the typos in index.md"
  turnlog run --tools fs,shell --allow shell_exec --route 'shell_*=detach:30s' "Run the tests"
  git diff | turnlog run --model scripted:review.yaml -o json
  turnlog run --file photo.jpg "What is on it?"
  turnlog run --agent agents/reviewer.yaml --agents-md nearest "Look at the last change"
  turnlog run --store ~/.turnlog --session plan-7 "And what is next?"
  turnlog run --server nats://127.0.0.1:4222 --session plan-7 "And what is next?"`,
	}
	f.register(cmd, a)
	f.session.RegisterBusy(cmd)
	output := cli.OutputFlag(cmd, "text", "json", "jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in, err := f.files.input(cmd.Context(), a, args)
		if err != nil {
			return err
		}
		return f.talk(cmd.Context(), in, func(ctx context.Context, v *conversation, in input) error {
			return v.print(ctx, in, output.String())
		})
	}
	return cmd
}

// talk opens the conversation that the flags describe, in this process or with a
// deployment, and passes it to do.
func (f *talkFlags) talk(ctx context.Context, in input, do func(context.Context, *conversation, input) error) error {
	id, err := f.session.SessionID()
	if err != nil {
		return err
	}
	local := !f.remote.Named()
	if in.start, err = f.session.Start(f.app, local); err != nil {
		return err
	}
	if f.seal && local {
		return cli.Usage("--seal is for a deployment: give --server; without it, sessions are in this process or in --store")
	}
	if f.timeout < 0 {
		return cli.Usage("--timeout %v: use a positive time, or 0 for none", f.timeout)
	}
	in.rules, in.timeout, in.busy, in.seal = f.session.Rules, f.timeout, f.given("on-busy"), f.seal
	if f.session.OnBusy != nil {
		in.onBusy = flags.BusyPolicy(f.session.OnBusy.String())
	}
	join := func(ctx context.Context, d *cli.Cell) error {
		return f.join(ctx, d, cmp.Or(id, content.SessionID(ulid.Make().String())), in, do)
	}
	if !local {
		return ended(f.remotely(ctx, in.start.Agent, join))
	}
	log := f.remote.Logger()
	if !f.given("log-level") { // the log of this process's own parts would clutter the replies
		log = log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))
	}
	of := deploy.AgentOf(&f.session, in.start.Agent, f.given)
	if in.start.Instructions, err = of.Instructions(f.tools.Root); err != nil {
		return err
	}
	here := deploy.ForSession(f.app, f.remote.Namespace(), of, in.start, f.tools, log)
	err = here.In(f.store).Run(ctx, join)
	if f.usual && errors.Is(err, embedded.ErrStoreInUse) {
		f.app.Hint("another chat uses %s, so this one is not stored; use --store DIR to store it", f.store)
		f.store = ""
		err = here.Run(ctx, join)
	}
	return ended(err)
}

// remotely connects to a deployment.
func (f *talkFlags) remotely(ctx context.Context, agent *agentfile.Definition, do func(context.Context, *cli.Cell) error) error {
	if agent != nil && len(agent.Sources("")) > 0 {
		f.app.Hint("agent %s does not see AGENTS.md and specifications: only workers have them", agent.Name)
	}
	for _, name := range append(toolset.FlagNames(), "agents-md", "store") {
		if f.given(name) {
			return cli.Usage("--%s is for the worker of this process, but with a server the tools are those of its workers", name)
		}
	}
	return connected(ctx, f.remote, do)
}

// join opens the conversation and checks that the flags match its session.
func (f *talkFlags) join(
	ctx context.Context, d *cli.Cell, id content.SessionID, in input, do func(context.Context, *conversation, input) error,
) error {
	return converse(ctx, f.remote, d, id, func(ctx context.Context, v *conversation) error {
		v.yes, v.asks, v.local, v.store = f.yes, v.IsIn, !f.remote.Named(), f.store
		if v.local {
			v.root = f.tools.Root
		}
		if v.store != "" && !f.usual {
			v.place = " --store " + v.store
		}
		switch {
		case v.session == nil:
			if f.session.ID == "" && (!v.local || v.store != "") {
				v.Hint("session %s", id)
			}
			v.hintMissing(ctx, in.start.Agent)
		case v.session.IsClosed():
			return fmt.Errorf("session %s is closed: start another one", id)
		default:
			if flag := f.contradicts(in.start, v.session.Config(), v.session.Snapshot().Transcript); flag != "" {
				return cli.Usage("--%s is for a new session, but %s exists and keeps its own", flag, id)
			}
		}
		return do(ctx, v, in)
	})
}

// contradicts returns a flag that does not match the session's start, or "".
func (f *talkFlags) contradicts(start flags.Start, is events.Config, transcript []content.Item) string {
	want, agent := start.Config, is.Agent
	var system string
	if len(transcript) > 0 && transcript[0].Kind == content.System {
		system = transcript[0].Text()
	}
	switch {
	case f.given("system") && start.System != system:
		return "system"
	case f.given("agent") && (agent == nil || want.Agent.Name != agent.Name ||
		want.Agent.Version != "" && want.Agent.Version != agent.Version): // without a version, any version matches
		return "agent"
	}
	return ""
}

// hintMissing hints at tools that the agent's file names but no worker offers yet.
func (v *conversation) hintMissing(ctx context.Context, d *agentfile.Definition) {
	if d == nil {
		return
	}
	specs, err := v.client.Tools(ctx)
	if err != nil {
		return // without the permission there is no hint
	}
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	flags.HintMissing(v.App, d, names)
}
