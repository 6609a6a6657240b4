package sessions

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/session"
)

// Calls returns the command that lists a session's open calls.
func Calls(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calls SESSION",
		Short: "List the open tool calls of a session",
		Long: `Lists the calls of the open turn that have no result yet, and the calls in the background. A call
is waiting to start, waiting for approval, running, or running in the background.`,
		Example: `  turnlog calls plan-7
  turnlog calls plan-7 -o json | jq -r '.[] | select(.state == "background") | .call'`,
	}
	read := func(ctx context.Context, c *client.Client, id content.SessionID, _ content.CallID) ([]report.OpenCall, error) {
		state, err := app.ReadSession(ctx, c, id)
		if err != nil {
			return nil, err
		}
		return report.OpenCalls(state), nil
	}
	return showing(a.RemoteClient(cmd), cmd, read, func(all []report.OpenCall, w io.Writer) error {
		return app.Table(w, "CALL TOOL STATE ROUTE ATTEMPTS DEADLINE", all, func(c report.OpenCall) []any {
			deadline := "none"
			if c.Deadline != nil {
				deadline = app.When(*c.Deadline)
			}
			return []any{c.Call, c.Tool, c.State, c.Route, c.Attempts, deadline}
		})
	})
}

// Detach returns the command that sends a call to the background.
func Detach(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "detach SESSION CALL",
		Short: "Move a running call to the background",
		Long: `Moves a running call to the background. The model sees that, and the turn continues. The result
arrives later as a notification, which wakes the session.`,
		Example: `  turnlog calls plan-7
  turnlog detach plan-7 call_2_1`,
	}
	return acting(a.RemoteClient(cmd), cmd, func(ctx context.Context, _ *client.Client, s *session.Session, call content.CallID) error {
		return s.Calls().Detach(ctx, call)
	})
}

// Cancel returns the command that cancels a turn or a call.
func Cancel(a *app.App) *cobra.Command {
	var call content.CallID
	cmd := &cobra.Command{
		Use:   "cancel SESSION",
		Short: "Cancel the open turn of a session, or one call",
		Long: `Cancels the session's open turn and waits until that is recorded. Running calls are stopped, and
waiting calls do not start. The session stays usable.

With --call it cancels only that call, even in the background, and the turn continues.`,
		Example: `  turnlog cancel plan-7
  turnlog cancel plan-7 --reason "wrong branch"
  turnlog cancel plan-7 --call call_2_1`,
	}
	reason := cmd.Flags().String("reason", "", "`text` to record as the reason; default user_cancelled")
	cmd.Flags().Func("call", "`id` of the call to cancel, instead of the turn", func(text string) (err error) {
		call, err = app.ParseCall(text)
		return err
	})
	return acting(a.RemoteClient(cmd), cmd, func(ctx context.Context, _ *client.Client, s *session.Session, _ content.CallID) error {
		if call == "" {
			return s.Cancel(ctx, *reason)
		}
		return s.Calls().Cancel(ctx, openCallOf(s, call), *reason)
	})
}
