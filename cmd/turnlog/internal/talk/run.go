// Package talk holds the commands that follow a turn: run, chat, task, send and
// wait.
//
// The one idea: a command is a user of package session like any other. What it prints
// of a turn comes from the journal, and live deltas only make it appear sooner, so a
// command shows the same whether it started the turn or joined it.
package talk

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/deploy"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
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
	f.remote = a.RemoteClient(cmd)
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
		if in.files, err = v.enclose(ctx, with); err != nil {
			return err
		}
		return v.print(ctx, in, output)
	})
}

// print submits input and prints its turn.
func (v *conversation) print(ctx context.Context, in input, output string) error {
	return v.report(ctx, output, func(show view) (*outcome, error) { return v.say(ctx, in, show) })
}

// report shows a turn while it is followed, prints its result, and returns its verdict.
func (v *conversation) report(ctx context.Context, output string, follow func(view) (*outcome, error)) error {
	var show view
	lines := &jsonlView{jsonView: jsonView{v.Terminal}}
	switch output {
	case "json":
		show = lines.jsonView
	case "jsonl":
		show = lines
	default:
		show = newTextView(v.Terminal)
	}
	out, err := follow(show)
	if err != nil {
		return err
	}
	if output != "text" {
		var result any
		if result, err = out.report(ctx); err != nil {
			return err
		}
		if output == "jsonl" {
			result = struct {
				Result any `json:"result"`
			}{result}
		}
		if err = app.WriteJSON(v.Out, result); err == nil {
			err = lines.failed
		}
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return out.verdict()
}

// opening is a conversation that is about to start.
type opening struct {
	talker

	given func(flag string) bool // whether a flag was given
	id    content.SessionID
	in    input // without its text
	flags talkFlags
	local bool // the session ends with this process
}

// talk opens the conversation that the flags describe, in this process or with a
// deployment, and passes it to do.
func (a talker) talk(cmd *cobra.Command, f talkFlags, do func(context.Context, *conversation, input) error) error {
	t := opening{talker: a, given: cmd.Flags().Changed, flags: f, local: !f.remote.Named()}
	var err error
	if t.id, err = f.session.SessionID(); err != nil {
		return err
	}
	if t.id == "" {
		t.id = content.SessionID(ulid.Make().String())
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
		t.hintUnseen()
		return t.remotely(cmd.Context(), with)
	}
	log := f.remote.Logger()
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

// hintUnseen hints at files that an agent reads only in this process.
func (t *opening) hintUnseen() {
	if d := t.in.start.Agent; d != nil && len(d.Sources("")) > 0 {
		t.Hint("agent %s does not see AGENTS.md and specifications: only workers have them", d.Name)
	}
}

// remotely connects to a deployment.
func (t *opening) remotely(ctx context.Context, do func(context.Context, *cli.Cell) error) error {
	for _, name := range append(toolset.FlagNames(), "agents-md") {
		if t.given(name) {
			return cli.Usage("--%s is for the worker of this process, but with a server the tools are those of its workers", name)
		}
	}
	d, err := t.flags.remote.Connect(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	ctx, stop := d.Lasting(ctx)
	defer stop()
	return do(ctx, d)
}

// join attaches to the session and checks that the flags match it.
func (t *opening) join(ctx context.Context, d *cli.Cell, do func(*conversation) error) error {
	v, err := t.converse(ctx, t.flags.remote, d, t.id)
	if err != nil {
		return err
	}
	defer v.close(ctx)
	v.yes = t.flags.yes
	if t.IsIn {
		v.lines = sync.OnceValue(t.Lines)
	}
	if t.local {
		v.decide = func(content.CallID) string {
			return "decide it at a terminal, or give --yes, or --allow with its name; this session is gone now"
		}
	}
	if v.session == nil {
		t.hintMissing(ctx, v)
		return do(v)
	}
	if v.session.IsClosed() {
		return fmt.Errorf("session %s is closed: start another one", t.id)
	}
	if flag := t.contradicts(v.session.Config(), v.session.Snapshot().Transcript); flag != "" {
		return cli.Usage("--%s is for a new session, but %s exists and keeps its own", flag, t.id)
	}
	return do(v)
}

// contradicts returns a flag that does not match how the session started, or "".
func (t *opening) contradicts(is events.Config, transcript []content.Item) string {
	want, agent := t.in.start.Config, is.Agent
	var system string
	if len(transcript) > 0 && transcript[0].Kind == content.System {
		system = transcript[0].Text()
	}
	switch {
	case t.given("model") && (want.Model != is.Model || !bytes.Equal(want.ModelData, is.ModelData)):
		return "model"
	case t.given("system") && t.in.start.System != system:
		return "system"
	case t.given("agent") && (agent == nil || want.Agent.Name != agent.Name ||
		want.Agent.Version != "" && want.Agent.Version != agent.Version): // without a version, any matches
		return "agent"
	}
	return ""
}

// hintMissing hints at tools that the agent's file names but no worker offers yet.
func (t *opening) hintMissing(ctx context.Context, v *conversation) {
	d := t.in.start.Agent
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
	flags.HintMissing(t.App, d, names)
}
