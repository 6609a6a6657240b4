package talk

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// Wait returns the command that waits for a turn.
func Wait(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait SESSION",
		Short: "Wait until a session's turn ends or needs approval",
		Long: `Waits until the open turn of a session ends or needs approval, and prints what "turnlog run" prints,
with the same exit codes. If input is pending, it waits for the turn of that input. If nothing is
pending or open, it prints the result of the last turn. For a user who may not read inboxes, such as a
client, a running driver node must answer whether input is pending.

An interrupt, or the end of --timeout, ends the command with exit code 4; the turn continues.`,
		Example: `  turnlog wait plan-7
  turnlog send plan-7 "Also look at the tests" && turnlog wait plan-7 -o json
  turnlog approve plan-7 call_1_1 && turnlog wait plan-7`,
	}
	timeout := cmd.Flags().Duration("timeout", 0, "stop waiting after this `time`; 0: never")
	output := cli.OutputFlag(cmd, "text", "json", "jsonl")
	r := a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		if *timeout < 0 {
			return cli.Usage("--timeout %v: use a positive time, or 0 for none", *timeout)
		}
		return ended(existing(cmd.Context(), r, id, func(ctx context.Context, v *conversation) error {
			return v.follow(ctx, output.String(), &exchange{timeout: *timeout, joined: true, begin: v.latest})
		}))
	}
	return cmd
}

// latest returns the open or pending turn, or else the last turn.
func (v *conversation) latest(ctx context.Context) (*session.Turn, error) {
	if turn := v.session.Latest(); turn != nil && turn.Result() == nil {
		return turn, nil
	}
	err := v.client.Settle(ctx, v.session) // pending input may open a turn
	switch {
	case errors.Is(err, session.ErrNoAnswer):
		return nil, unsettled(v.id)
	case err != nil:
		return nil, err
	}
	turn := v.session.Latest()
	if turn == nil {
		return nil, app.Failed(cli.CodeFailed, "session %s has had no turn yet: \"turnlog send %s\" starts one", v.id, v.id)
	}
	return turn, nil
}

// unsettled is the error for a session that has not handled its input.
func unsettled(id content.SessionID) error {
	return fmt.Errorf("%w: no driver node has answered whether session %s has pending input", session.ErrLeft, id)
}
