package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
)

// sent is what -o json prints of an ask that was left in the inbox.
type sent struct {
	Session content.SessionID `json:"session"`
	Command string            `json:"command"`
}

func newSendCommand(a *app) *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send SESSION TEXT...",
		Short: "Send input to a session of a deployment",
		Long: `Puts input into the session's inbox and prints the id under which it is there: the input
is safe then, whatever happens to driver nodes. With --wait the command goes on like
"turnlog run" until the turn that takes the input in has ended.

The text "-" is read from stdin.`,
		Example: `  turnlog send plan-7 "Also look at the tests"
  turnlog send plan-7 --on-busy interrupt --wait "Stop that, and start over"
  turnlog send plan-7 - < notes.txt`,
	}
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for the turn's end and show it")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "with --wait, cancel the turn after this `time`; 0: never")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --wait, approve whatever wants a person's approval")
	f.limit.register(cmd)
	f.onBusy = cli.NewChoice("steer", "queue", "interrupt", "reject")
	f.onBusy.Register(cmd, "on-busy", "", "what to do while a turn of the session is open")
	f.output = cli.OutputFlag(cmd, "text", "json")
	f.deployment = cli.NewDeployment(cmd, a.getenv)
	f.log = cli.NewLog(cmd, zapcore.WarnLevel)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return ended(a.send(cmd, f, args[0], args[1:]))
	}
	return cmd
}

// sendFlags say what is sent how, and to which deployment.
type sendFlags struct {
	wait       bool
	yes        bool
	timeout    time.Duration
	limit      limitFlag
	onBusy     *cli.Choice
	output     *cli.Choice
	deployment *cli.Deployment
	log        *cli.Log
}

func (a *app) send(cmd *cobra.Command, f sendFlags, session string, words []string) error {
	id, err := content.ParseSessionID(session)
	if err != nil {
		return usageError("%w", err)
	}
	switch {
	case f.timeout != 0 && !f.wait:
		return usageError("--timeout is for --wait")
	case f.yes && !f.wait:
		return usageError("--yes is for --wait")
	}
	text, err := a.prompt(cmd.Context(), words)
	if err != nil {
		return err
	}
	in := input{text: text, onBusy: busyPolicy(f.onBusy), limits: f.limit.over, timeout: f.timeout}
	log := f.log.Logger(a.term.err, a.getenv)
	d, err := a.dial(cmd.Context(), f.deployment, "turnlog send", log)
	if err != nil {
		return err
	}
	defer d.Close()
	c, err := client.Open(d.Conn, d.Namespace(), client.WithLogger(log), client.WithName("turnlog-send"))
	if err != nil {
		return err
	}
	if _, err := d.Journal().Last(cmd.Context(), id); err != nil {
		return noSession(id, err)
	}
	v, err := a.converse(cmd.Context(), d.Cell, c, id)
	if err != nil {
		return err
	}
	defer v.close()
	v.people.yes = f.yes
	if !f.wait {
		return a.leave(cmd.Context(), c, id, in.ask(&v.tracker), f.output.String())
	}
	return a.turn(cmd.Context(), v, in, f.output.String())
}

// leave puts an ask into a session's inbox and prints its id.
func (a *app) leave(ctx context.Context, c *client.Client, id content.SessionID, ask commands.Command, output string) error {
	name := ulid.Make().String()
	err := a.interruptible(ctx, func(ctx context.Context) error { return c.Send(ctx, id, name, ask) })
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(a.term.out, sent{Session: id, Command: name})
	}
	_, err = fmt.Fprintln(a.term.out, name)
	return err
}

// noSession words the error for a session that is not there.
func noSession(id content.SessionID, err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("there is no session %s: \"turnlog sessions ls\" lists those that there are", id)
	}
	return err
}

// busyPolicy is the word of a flag as a policy: to steer is the zero value.
func busyPolicy(c *cli.Choice) events.OnBusy {
	if w := c.String(); w != "steer" {
		return events.OnBusy(w)
	}
	return events.Steer
}
