package flags

import (
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// Goal says how the work on a goal is verified.
type Goal struct {
	command string
	retries int
	given   func(flag string) bool
}

// Register adds the flags to cmd. prefix begins their help.
func (f *Goal) Register(cmd *cobra.Command, prefix string) {
	cmd.Flags().StringVar(&f.command, "gate", "", prefix+"verifier: a `command` that exits with 0 if the goal is reached; default: none")
	cmd.Flags().IntVar(&f.retries, "max-retries", 3, prefix+"how many `times` the model continues after the verifier has failed")
	f.given = cmd.Flags().Changed
}

// Given returns the first of the flags that the command line sets, or "".
func (f *Goal) Given() string {
	for _, flag := range []string{"gate", "max-retries"} {
		if f.given(flag) {
			return flag
		}
	}
	return ""
}

// Spec returns the task with a goal.
func (f *Goal) Spec(goal string) (events.TaskSpec, error) {
	spec := events.TaskSpec{Goal: goal, MaxRetries: f.retries}
	switch {
	case f.retries < 0:
		return spec, cli.Usage("--max-retries %d: use 0 or more", f.retries)
	case f.command != "":
		spec.Verifier = []string{"/bin/sh", "-c", f.command}
	case f.given("gate"):
		return spec, cli.Usage("--gate is empty: give a command, or leave it out")
	}
	return spec, nil
}

// Inherit adds the agent's verifier to a task that has none.
func (f *Goal) Inherit(spec *events.TaskSpec, d *agentfile.Definition) {
	if d == nil || len(spec.Verifier) > 0 {
		return
	}
	of := d.Task(spec.Goal)
	if spec.Verifier = of.Verifier; !f.given("max-retries") {
		spec.MaxRetries = of.MaxRetries
	}
}
