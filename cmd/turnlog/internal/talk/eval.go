package talk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/agent/eval"
	"github.com/turnlog/turnlog/agent/replay"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/deploy"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
)

// Eval returns the command that runs a suite of cases and checks them.
func Eval(a *app.App) *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval SUITE",
		Short: "Run a suite of cases, and check what the agent did",
		Long: `Runs the cases of a YAML suite, each the specified number of times, and checks the sessions. A case is a prompt (or
several, one per turn), a prompt that continues a session (fork), or a journal (an exported file or a session) that is
replayed with its recorded results, like "turnlog replay". A case can use a cassette as its model. Checks are: calls,
no_calls, contains, not_contains, matches, schema, max_tokens, max_cost, max_rounds, command, judge. See docs/evals.md.

It runs in this process or on a deployment, with the same tools and rules, as "turnlog run" does. It never asks for
approval: a call that needs approval is denied, unless --yes approves everything.

Each result is a session. Its ID is derived from the inputs of the run, so a command that is started again, even after
a crash, reuses existing sessions and runs only the rest. In this process that needs --store, and for journals
--journals. --run NAME runs everything again.

Each pass rate has a 95 % interval (Wilson's score interval). With --baseline FILE, an earlier output of -o json, a case
is a regression if it passed and now fails, if it is new and fails, or if its rate dropped by more than chance explains
(the 95 % interval of the difference, by Newcombe, is below zero).

--write FILE also writes the report to a file; the extension selects the format: .json, .xml (JUnit), .md or .txt.

Exit codes: 0 all cases pass, or with --baseline none is a regression; 1 otherwise, or something cannot be run; 2 wrong
usage, or the suite is wrong; 4 it was interrupted.`,
		Example: `  turnlog eval examples/evals/support.yaml
  turnlog eval support.yaml --model anthropic:claude-sonnet-5-5 --repeats 20 --store ~/.turnlog-evals
  turnlog eval support.yaml --baseline main.json --write results.json --write junit.xml --write summary.md
  turnlog eval support.yaml --server nats://127.0.0.1:4222 --run "$(git rev-parse HEAD)" --parallel 16`,
	}
	f.register(cmd, a)
	output := cli.OutputFlag(cmd, eval.Formats()...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.run(cmd.Context(), args[0], output.String())
	}
	return cmd
}

// evalFlags are the flags of the command eval.
type evalFlags struct {
	talkFlags

	cfg      eval.Config
	baseline string
	write    []string
}

func (f *evalFlags) register(cmd *cobra.Command, a *app.App) {
	f.app, f.given = a, cmd.Flags().Changed
	f.session.RegisterEval(cmd)
	fs := cmd.Flags()
	cli.Group(fs, cli.ToolFlags, func() { f.tools.Register(cmd, toolset.DefaultSet) })
	fs.StringVar(&f.cfg.Run, "run", "", "`name` of this run; a new name runs everything again")
	fs.IntVar(&f.cfg.Repeats, "repeats", 0, "`number` of runs of each case; 0: as the suite says")
	fs.IntVar(&f.cfg.Parallel, "parallel", 0, "`number` of results that run at the same time; 0: 4")
	fs.DurationVar(&f.cfg.Timeout, "timeout", 0, "cancel each turn, replay, command and judge after this `time`; 0: 10m")
	fs.StringVar(&f.cfg.Journals, "journals", "", "`directory` for the journals of the results, which later runs reuse")
	fs.StringVar(&f.baseline, "baseline", "", "`file` with an earlier output of -o json to compare with")
	fs.StringArrayVar(&f.write, "write", nil, "`file` to write the report to; its name ends with .json, .xml, .md or .txt; repeatable")
	fs.StringVar(&f.store, "store", "", "`directory` for the sessions of this process; default: "+ephemeral)
	fs.BoolVar(&f.yes, "yes", false, "approve everything; otherwise calls that need approval are denied")
	for _, dir := range []string{"store", "journals"} {
		_ = cmd.MarkFlagDirname(dir) // the flag exists
	}
	f.remote = a.RemoteClient(cmd)
	app.ServerOptional(cmd, "everything runs in this process")
}

// written returns the format for a file by the end of its name.
func written(file string) (format string, err error) {
	switch end := filepath.Ext(file); end {
	case ".json":
		return "json", nil
	case ".xml":
		return "junit", nil
	case ".md":
		return "markdown", nil
	case ".txt":
		return "text", nil
	}
	return "", cli.Usage("--write %s: use a name that ends with .json, .xml (JUnit), .md or .txt", file)
}

func (f *evalFlags) run(ctx context.Context, file, output string) error {
	suite, err := eval.Load(file)
	if err != nil {
		return cli.Usage("%w", err)
	}
	var base *eval.Report
	if f.baseline != "" {
		if base, err = eval.LoadReport(f.baseline); err != nil {
			return cli.Usage("%w", err)
		}
	}
	for _, name := range f.write {
		if _, err := written(name); err != nil {
			return err
		}
	}
	switch {
	case f.cfg.Repeats < 0 || f.cfg.Parallel < 0 || f.cfg.Timeout < 0:
		return cli.Usage("--repeats, --parallel and --timeout: use a positive value, or 0 for the default")
	case f.cfg.Journals != "":
		if err := os.MkdirAll(f.cfg.Journals, 0o700); err != nil {
			return cli.Usage("--journals: %w", err)
		}
	}
	report, err := f.evaluate(ctx, suite)
	if err != nil {
		return ended(err)
	}
	if base != nil {
		report.Compare(base)
	}
	err = report.Write(f.app.Out, output)
	for _, name := range f.write {
		err = errors.Join(err, save(report, name))
	}
	if err != nil {
		return err
	}
	if report.Failed() {
		return &cli.ExitError{Code: cli.CodeFailed}
	}
	return nil
}

func save(report *eval.Report, name string) error {
	format, err := written(name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := report.Write(&b, format); err != nil {
		return err
	}
	if err := renameio.WriteFile(name, b.Bytes(), 0o644); err != nil { //nolint:gosec // CI publishes it
		return fmt.Errorf("--write: %w", err)
	}
	return nil
}

// evaluate runs the suite in this process or on a deployment.
func (f *evalFlags) evaluate(ctx context.Context, suite *eval.Suite) (report *eval.Report, err error) {
	agent := suite.Agent
	if agent != "" && agentfile.IsFile(agent) && !filepath.IsAbs(agent) {
		agent = filepath.Join(suite.Folder, agent)
	}
	f.session.Default(suite.Model, agent, suite.System, suite.Folder)
	local := !f.remote.Named()
	start, err := f.session.Start(f.app, local)
	if err != nil {
		return nil, err
	}
	if err := f.prepare(start, suite, local); err != nil {
		return nil, err
	}
	if !local {
		return report, f.remotely(ctx, start.Agent, func(ctx context.Context, d *cli.Cell) error {
			report, err = f.on(ctx, d, suite)
			return err
		})
	}
	log := f.remote.Logger()
	if !f.given("log-level") { // the log of this process's own parts would clutter the output
		log = log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))
	}
	of := deploy.AgentOf(&f.session, start.Agent, f.given)
	if start.Instructions, err = of.Instructions(f.tools.Root); err != nil {
		return nil, err
	}
	f.cfg.Start.Transcript = start.Instructions
	tools, err := f.tools.Start(ctx, toolset.Agents{}, cli.Version(), f.app.Getenv, log)
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	defer tools.Close()
	if f.cfg.Replay.Tools, err = tools.Sources(nil, nil, nil); err != nil { // for their descriptions
		return nil, cli.Usage("%w", err)
	}
	return report, deploy.ForSession(f.app, f.remote.Namespace(), of, start, f.tools, log).In(f.store).Run(ctx, func(ctx context.Context, d *cli.Cell) error {
		report, err = f.on(ctx, d, suite)
		return err
	})
}

// prepare sets the part of the configuration that is the same in this process and on a deployment.
func (f *evalFlags) prepare(start flags.Start, suite *eval.Suite, local bool) (err error) {
	f.cfg.Start = client.Options{Config: start.Config, SystemPrompt: start.System}
	if start.Config.Agent != nil {
		f.cfg.Fork.Agent = start.Config.Agent
	} else if start.Chosen {
		f.cfg.Fork.Model, f.cfg.Fork.ModelData = start.Config.Model, start.Config.ModelData
	}
	if f.yes { // it must be a different session: nothing is denied in it
		f.cfg.Start.Metadata = f.cfg.Start.Metadata.With("approve", "all")
	}
	f.cfg.Replay = replay.Config{System: start.System}
	if d := start.Agent; d != nil {
		f.cfg.Replay.System = d.System
	}
	models := flags.Models(f.app).In(suite.Folder)
	f.cfg.Data = func(name string) ([]byte, error) { return flags.ModelData(models, name, local) }
	f.cfg.Open = func(name string) (model.Model, error) { return models.Open(name, nil) }
	for _, c := range suite.Cases {
		if c.Journal == "" || c.Model != "" || c.Replies != "" {
			continue
		}
		if start.Agent == nil && start.Config.Agent != nil {
			return cli.Usage("case %s runs a journal again in this process: name the file of agent %s", c.Name, start.Config.Agent.Name)
		}
		if f.cfg.Replay.Model, err = f.session.Given(f.app, start); err != nil {
			return cli.Usage("case %s runs a journal again in this process: %w", c.Name, err)
		}
	}
	return nil
}

// on runs the suite with a client of a deployment.
func (f *evalFlags) on(ctx context.Context, d *cli.Cell, suite *eval.Suite) (report *eval.Report, err error) {
	if f.cfg.Client, err = f.remote.Client(d, client.WithApprover(unattended{f.yes})); err != nil {
		return nil, err
	}
	specs, err := f.cfg.Client.Tools(ctx)
	if err != nil {
		return nil, d.Advise(err)
	}
	f.cfg.Replay.Tools = append(f.cfg.Replay.Tools, described(specs))
	total, kept := 0, 0
	f.cfg.Progress = func(c eval.Case, r eval.Result) {
		word := "pass"
		if !r.Passed {
			word = "FAIL"
		}
		if total++; r.Kept {
			kept++
		}
		if f.app.IsIn {
			f.app.Hint("%s  %s  session %s", word, c.Name, r.Session)
		}
	}
	err = f.app.Interruptible(ctx, func(ctx context.Context) error {
		report, err = eval.Run(ctx, suite, f.cfg)
		return err
	})
	if kept > 0 {
		f.app.Hint("%d of %d results had run before; --run NAME runs everything again", kept, total)
	}
	return report, d.Advise(err)
}

// unattended decides approvals without asking anyone.
type unattended struct{ yes bool }

// Approve approves with --yes.
func (u unattended) Approve(context.Context, events.Approval) (bool, string, error) {
	if u.yes {
		return true, "", nil
	}
	return false, "evaluations do not ask for approval", nil
}

// described are the tools of a deployment as a replay shows them to its model. Their calls get only recorded results.
type described []tool.Spec

// Name names the source.
func (described) Name() string { return "deployment" }

// Tools lists the tools.
func (d described) Tools(context.Context) (out []tool.Tool, err error) {
	for _, spec := range d {
		if t, err := engine.Remote(spec); err == nil { // otherwise no session has the tool
			out = append(out, t)
		}
	}
	return out, nil
}
