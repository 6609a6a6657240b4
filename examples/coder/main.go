// Command coder works on a Go repository until its tests pass. coder.yaml defines its agent: it
// may read without asking, asks at the terminal before edits and commands, and is done when
// "go test ./..." passes.
//
//	go run ./examples/coder                                          # offline, on a copy of testdata/shop
//	go run ./examples/coder --root ~/src/app "Make the tests pass"   # with a provider's key in the environment
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/fs"
)

//go:embed coder.yaml
var definition []byte

//go:embed offline.yaml
var script []byte

// options are those of the command line.
type options struct {
	root, model, goal string
	script            []byte // of a model without a file
	yes               bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.New(os.Stderr, "coder: ", 0).Fatal(err)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.goal == "" {
		if o.root, err = sample(ctx); err != nil {
			return err
		}
		defer os.RemoveAll(o.root) //nolint:errcheck // a temporary folder
		o.goal = sampleGoal
	}
	t := newTerminal(ctx, in, out, o.yes)
	t.say("%s: %s\n", o.model, o.goal)
	a, task, err := o.agent(ctx, t)
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		return err
	}
	defer d.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the journal ends with the program
	res, err := d.RunTask(ctx, task)
	if res == nil {
		return err
	}
	t.say("\n%s", diff(context.WithoutCancel(ctx), o.root, task.Baseline, res.FilesChanged)) // even of a failed task
	t.say("%s, verified: %t, attempts: %d, changed: %s\n", res.Status, res.Verified, res.Attempts, strings.Join(res.FilesChanged, ", "))
	if err == nil && !res.Verified {
		err = session.ErrCancelled
	}
	return err
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("coder", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "", "`directory` of the repository; default: the working directory")
	flags.StringVar(&o.model, "model", "", "`model` to work with; default: one of the first provider whose key is set, and without a goal a script")
	flags.BoolVar(&o.yes, "yes", false, "approve everything: edits and commands")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "coder [flags] GOAL    without a goal: on a copy of a small module with a mistake in it")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err //nolint:wrapcheck // already printed with the usage
	}
	o.goal = strings.Join(flags.Args(), " ")
	switch {
	case o.goal == "" && o.root != "":
		return o, errors.New("no goal: say what to do after the flags")
	case o.goal == "" && o.model == "":
		o.model, o.script = "scripted:offline.yaml", script
	case o.model == "":
		if o.model, _ = registry.New(os.Getenv).Default(); o.model == "" {
			return o, errors.New("there is no model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name one with --model")
		}
	}
	if o.root == "" {
		o.root = "."
	}
	return o, nil
}

// agent returns the agent of the file and the task of the goal.
func (o options) agent(ctx context.Context, t *terminal) (*agent.Agent, session.Task, error) {
	def, err := agentfile.Parse("coder.yaml", definition, nil)
	if err != nil {
		return nil, session.Task{}, err
	}
	def.Model = o.model
	tools, err := repoTools(o.root) //nolint:contextcheck // exec.NewShell takes no time worth a context
	if err != nil {
		return nil, session.Task{}, err
	}
	protected, err := permission.NewPaths(o.root, permission.PathRules{Protect: []string{".git"}})
	if err != nil {
		return nil, session.Task{}, err
	}
	models := registry.New(os.Getenv)
	cfg, err := def.Agent(ctx, agentfile.Kit{
		Models:      func(name string, _ []byte) (model.Model, error) { return models.Open(name, o.script) },
		Tools:       []tool.Source{tools},
		Policy:      permission.AllowAll(), // coder.yaml says what is asked
		Permissions: protected,
		Root:        o.root,
	})
	if err != nil {
		return nil, session.Task{}, err
	}
	cfg.Approver, cfg.Observers = t, []extension.Observer{t}
	a, err := agent.New(cfg)
	spec := def.Task(o.goal)
	task := session.Task{Goal: spec.Goal, Verifier: extension.Command(spec.Verifier...), MaxRetries: spec.MaxRetries, Baseline: baseline(ctx, o.root)}
	return a, task, err
}

// repoTools returns the tools: the repository's files, and commands that start in it.
func repoTools(root string) (tool.Source, error) {
	tools, err := fs.New(root, fs.Options{Write: true})
	if err != nil {
		return nil, err
	}
	opts := exec.Options{Sandbox: "auto"} // bubblewrap, where it works
	if cache, err := os.UserCacheDir(); err == nil {
		opts.Env = []string{"GOCACHE=" + cmp.Or(os.Getenv("GOCACHE"), filepath.Join(cache, "go-build"))} // a sandbox only reads it
	}
	sh, err := exec.NewShell(root, opts)
	if err != nil {
		return nil, err
	}
	return tool.NewRegistry("workshop", append(tools, sh)...)
}
