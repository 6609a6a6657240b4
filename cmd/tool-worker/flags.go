package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
)

// flags are what the command line says.
type flags struct {
	name  string
	queue string
	slots int

	sets  []string
	tools toolOptions

	timeout time.Duration
	drain   time.Duration
	http    *string

	deployment *cli.Deployment
	log        *cli.Log
}

func (f *flags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.name, "name", "", "`name` of the worker in the catalog, letters, digits, '-' and '_'; default: a new one")
	fs.StringVar(&f.queue, "queue", "default", "`name` of the queue that it takes calls from; created if it is not there")
	fs.IntVar(&f.slots, "slots", 0, "`calls` at a time; 0: four for each CPU")
	fs.StringSliceVar(&f.sets, "tools", []string{"fs"}, "`sets` of tools, separated by commas: "+strings.Join(setNames(), ", "))
	fs.StringVar(&f.tools.root, "root", ".", "`directory` that the tools work in; file tools cannot leave it")
	fs.BoolVar(&f.tools.allowWrite, "allow-write", false, "let the file tools write; without it they only read")
	fs.DurationVar(&f.timeout, "timeout", 2*time.Minute, "`time` for a call whose tool sets none")
	fs.DurationVar(&f.drain, "drain", 10*time.Second, "`time` that running calls have to finish when the worker is told to stop")
	f.http = ops.AddressFlag(cmd)
}

// complete checks the flags and fills in what they leave open.
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
	case f.timeout <= 0 || f.drain <= 0:
		return cli.Usage("--timeout %v and --drain %v: use positive times", f.timeout, f.drain)
	case len(f.sets) == 0:
		return cli.Usage("--tools: name at least one of %s", strings.Join(setNames(), ", "))
	}
	slices.Sort(f.sets)
	f.sets = slices.Compact(f.sets)
	root, err := filepath.Abs(f.tools.root)
	if err != nil {
		return fmt.Errorf("--root %s: %w", f.tools.root, err)
	}
	f.tools.root = root
	return nil
}
