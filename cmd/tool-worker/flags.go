package main

import (
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/cli/toolset"
)

// flags are what the command line says.
type flags struct {
	name  string
	queue string
	slots int

	tools    toolset.Flags
	services []string
	agents   string

	timeout time.Duration
	drain   time.Duration
	root    string
	http    *string

	deployment *cli.Deployment
	log        *cli.Log
}

func (f *flags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.name, "name", "", "`name` of the worker in the catalog, of letters, digits, '-' and '_'; default: generated")
	fs.StringVar(&f.queue, "queue", "default", "`name` of the queue of calls; created if it does not exist")
	fs.IntVar(&f.slots, "slots", 0, "maximum `number` of calls at a time, not counting those of sub-agents; 0: four per CPU")
	f.tools.Register(cmd, toolset.DefaultSet)
	fs.StringArrayVar(&f.services, "nats-service", nil, "`name` of a NATS microservice whose endpoints are tools; repeatable")
	fs.StringVar(&f.agents, "agents", "", "`folder` of agent files, whose MCP servers, skills and sub-agents the worker offers")
	_ = cmd.MarkFlagDirname("agents") // the flag exists
	fs.DurationVar(&f.timeout, "timeout", 2*time.Minute, "`time` limit of calls whose tool has none")
	fs.DurationVar(&f.drain, "drain", 10*time.Second, "`time` for running calls to finish when the worker stops")
	fs.StringVar(&f.root, "keys-root", "", "public `key` of the root that signs the directory of keys, to run and stop calls only if a driver signed that; default: signatures are not verified")
	f.http = ops.AddressFlag(cmd)
}

// complete validates the flags and fills in defaults.
func (f *flags) complete() error {
	switch {
	case f.name == "":
		f.name = ulid.Make().String()
	case !content.IsToken(f.name):
		return cli.Usage("--name %q: use 1 to 128 letters, digits, '-' or '_'", f.name)
	}
	switch {
	case !content.IsToken(f.queue):
		return cli.Usage("--queue %q: use 1 to 128 letters, digits, '-' or '_'", f.queue)
	case f.slots < 0:
		return cli.Usage("--slots %d: use 1 or more, or 0 for four for each CPU", f.slots)
	case f.root != "" && keys.CheckRoot(f.root) != nil:
		return cli.Usage("--keys-root: %w", keys.CheckRoot(f.root))
	case f.timeout <= 0 || f.drain <= 0:
		return cli.Usage("--timeout %v and --drain %v: use positive times", f.timeout, f.drain)
	}
	return nil
}
