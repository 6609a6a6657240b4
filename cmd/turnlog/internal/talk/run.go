// Package talk holds the commands that follow a turn: run, chat, task, send and
// wait.
//
// The one idea: what is printed of a turn comes from the session's journal; live
// deltas only make it come sooner. So a command shows the same whether it started
// the turn or joined it.
package talk

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/deploy"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/session"
)

// talker is the process as the commands of this package see it.
type talker struct{ *app.App }

// talkFlags are the flags of run, chat and task.
type talkFlags struct {
	session flags.Session
	tools   toolset.Flags
	remote  *app.Remote
	timeout time.Duration
	yes     bool
}

func (f *talkFlags) register(cmd *cobra.Command, a talker) {
	f.session.Register(cmd)
	f.tools.Register(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "cancel a turn after this `time`; 0: never")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "approve everything")
	f.remote = a.Remote(cmd, admin.RoleClient)
}

// Run returns the command that runs one turn.
func Run(process *app.App) *cobra.Command {
	a := talker{process}
	var f talkFlags
	var files fileFlag
	var output *cli.Choice
	cmd := &cobra.Command{
		Use:   "run [PROMPT...]",
		Short: "Run one turn to its end",
		Long: `Runs one turn to its end and prints the replies as they come; tool calls are shown on
stderr. Without arguments, or with "-", the prompt is read from stdin.

If neither a flag nor NATS_URL or NATS_CONTEXT names a server, everything runs in this
process: a NATS server in memory, a driver node, and a worker whose tools only read, below
--root. With a server the turn runs on that deployment, with the tools of its workers.

Calls of tools that only read run. All others need approval, unless --allow, --ask and --deny
say otherwise: the first one whose pattern matches applies. At a terminal you are asked.
Otherwise the command exits with 5 and says how to decide; --yes approves everything. In an
existing session these flags, --limit and --route narrow this turn; but --allow is a decision
for the rest of the session.

--file attaches a file of up to 100 MiB, and may be repeated. Large files are stored with the
deployment and referenced in the journal; models see at most 32 MiB, and the names of the rest.

The first interrupt cancels the turn, the second one leaves at once.

Exit codes: 0 the turn completed, 1 it failed, 2 wrong usage, 3 a limit ended it (including the
model's own token limit), 4 it was cancelled or left, 5 it waits for approval.

-o json prints one object when the turn has ended. -o jsonl prints every event of the
session as it is recorded, one a line, then {"result": that object}.`,
		Example: `  turnlog run "Which Go files here are the longest, and what do they do?"
  turnlog run --tools fs,shell --allow-write --root ./site "Fix the typos in index.md"
  turnlog run --tools fs,shell --allow shell_exec --route 'shell_*=detach:30s' "Run the tests"
  git diff | turnlog run --model scripted:review.yaml -o json
  turnlog run --file photo.jpg "What is on it?"
  turnlog run --agent agents/reviewer.yaml --agents-md nearest "Look at the last change"
  turnlog run --server nats://127.0.0.1:4222 --session plan-7 "And what is next?"`,
	}
	f.register(cmd, a)
	f.session.RegisterBusy(cmd)
	files.register(cmd)
	output = cli.OutputFlag(cmd, "text", "json", "jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return ended(a.runTurn(cmd, f, files, output.String(), args))
	}
	return cmd
}

func (a talker) runTurn(cmd *cobra.Command, f talkFlags, files fileFlag, output string, args []string) error {
	with, err := files.look()
	if err != nil {
		return err
	}
	text, err := a.Prompt(cmd.Context(), args)
	if err != nil {
		return err
	}
	return a.talk(cmd, f, func(ctx context.Context, v *conversation, in input) (err error) {
		in.text = text
		if in.files, err = a.enclose(ctx, v.cell, with); err != nil {
			return err
		}
		return a.turn(ctx, v, in, output)
	})
}

// turn submits input and prints the turn.
func (a talker) turn(ctx context.Context, v *conversation, in input, output string) error {
	return a.report(output, func(show view) (*turnOutcome, error) { return v.say(ctx, in, show) }, v.turnEnd)
}

// turnEnd returns what run prints for the end of a turn, and the command's error.
func (v *conversation) turnEnd(o *turnOutcome) (result any, verdict error) {
	return o.report(v.id), o.verdict(v.people.how)
}

// report shows a turn while wait follows it, prints its result, and returns its verdict.
func (a talker) report(
	output string, wait func(view) (*turnOutcome, error), end func(*turnOutcome) (result any, verdict error),
) error {
	var show view
	lines := &jsonlView{jsonView: jsonView{a.Terminal}}
	switch output {
	case "json":
		show = lines.jsonView
	case "jsonl":
		show = lines
	default:
		show = newTextView(a.Terminal)
	}
	out, err := wait(show)
	if err != nil {
		return err
	}
	result, verdict := end(out)
	switch output {
	case "json":
		err = app.WriteJSON(a.Out, result)
	case "jsonl":
		err = app.WriteJSON(a.Out, struct {
			Result any `json:"result"`
		}{result})
	}
	if err == nil {
		err = lines.failed
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return verdict
}

// talk is a conversation that is about to start.
type talk struct {
	talker
	name  string                 // of the command
	given func(flag string) bool // whether a flag was given
	id    content.SessionID      // "": a new session
	in    input                  // without its text
	yes   bool                   // approve everything
	local bool                   // the session ends with this process
	log   *zap.Logger
}

// talk opens the conversation that the flags describe, in this process or with a
// deployment, and passes it to do.
func (a talker) talk(cmd *cobra.Command, f talkFlags, do func(context.Context, *conversation, input) error) error {
	t := talk{talker: a, name: cmd.Name(), given: cmd.Flags().Changed, yes: f.yes, log: f.remote.Logger()}
	t.local = !f.remote.Named()
	var err error
	if t.id, err = f.session.SessionID(); err != nil {
		return err
	}
	if t.in, err = f.input(a, t.local); err != nil {
		return err
	}
	t.in.busy = t.given("on-busy")
	of := deploy.AgentOf(&f.session, t.in.start.Agent, t.given)
	with := func(ctx context.Context, d *cli.Cell) error {
		return d.Advise(t.join(ctx, d, func(v *conversation) error { return do(ctx, v, t.in) }))
	}
	if !t.local {
		t.unseen()
		return t.remotely(cmd.Context(), f.remote, with)
	}
	log := t.log
	if !t.given("log-level") { // the log of this process's own parts would clutter the replies
		log = log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))
	}
	if t.in.start.Instructions, err = of.Instructions(f.tools.Root); err != nil {
		return err
	}
	return deploy.ForSession(a.App, f.remote.Namespace(), of, t.in.start, f.tools, log).Run(cmd.Context(), with)
}

// input returns the input that the flags describe, without its text.
func (f *talkFlags) input(a talker, local bool) (input, error) {
	begin, err := f.session.Start(a.App, local)
	if err == nil && f.timeout < 0 {
		err = cli.Usage("--timeout %v: use a positive time, or 0 for none", f.timeout)
	}
	in := input{start: begin, rules: f.session.Rules, timeout: f.timeout}
	if f.session.OnBusy != nil {
		in.onBusy = flags.BusyPolicy(f.session.OnBusy.String())
	}
	return in, err
}

// unseen hints at files that an agent reads only in this process.
func (t *talk) unseen() {
	if d := t.in.start.Agent; d != nil && len(d.Sources("")) > 0 {
		t.Hint("agent %s does not see AGENTS.md and specifications: only workers have them", d.Name)
	}
}

// remotely connects to a deployment.
func (t *talk) remotely(ctx context.Context, to *app.Remote, do func(context.Context, *cli.Cell) error) error {
	for _, name := range append(toolset.FlagNames(), "agents-md") {
		if t.given(name) {
			return cli.Usage("--%s is for the worker of this process, but with a server the tools are those of its workers", name)
		}
	}
	d, err := to.Connect(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	ctx, stop := d.Lasting(ctx)
	defer stop()
	return do(ctx, d)
}

// join attaches to the session and checks that the flags match it.
func (t *talk) join(ctx context.Context, d *cli.Cell, do func(*conversation) error) error {
	if t.id == "" {
		t.id = content.SessionID(ulid.Make().String())
	}
	c, err := client.Open(d.Conn, d.Namespace(), client.WithLogger(t.log), client.WithName("turnlog-"+t.name))
	if err != nil {
		return err
	}
	v, err := t.converse(ctx, d.Cell, c, t.id)
	if err != nil {
		return err
	}
	defer v.close()
	t.ask(v)
	switch flag := v.tracker.differs(t.in.start, t.given); {
	case v.tracker.deleted != nil:
		return &session.DeletedError{Session: t.id, Deletion: *v.tracker.deleted}
	case v.tracker.closed:
		return fmt.Errorf("session %s is closed: start another one", t.id)
	case v.tracker.opened && flag != "":
		return cli.Usage("--%s is for a new session, but %s exists and keeps its own", flag, t.id)
	}
	if d := t.in.start.Agent; d != nil && !v.tracker.opened {
		t.unoffered(ctx, d, v.cell)
	}
	return do(v)
}

// unoffered hints at tools that the agent's file names but no worker offers yet.
func (t *talk) unoffered(ctx context.Context, d *agentfile.Definition, cell *jetstream.Cell) {
	offers, err := cell.Catalog().List(ctx)
	if err != nil {
		return // without the permission there is no hint
	}
	var names []string
	for _, o := range offers {
		for _, spec := range o.Tools {
			names = append(names, spec.Name)
		}
	}
	flags.HintMissing(t.App, d, names)
}

// ask sets how approvals are decided.
func (t *talk) ask(v *conversation) {
	v.people.yes = t.yes
	if t.IsIn {
		v.people.lines = sync.OnceValue(t.Lines)
	}
	if t.local {
		v.people.how = func(content.CallID) string {
			return "decide it at a terminal, or give --yes, or --allow with its name; this session is gone now"
		}
	}
}
