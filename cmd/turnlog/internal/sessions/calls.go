package sessions

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// openCall is a call without an outcome.
type openCall struct {
	Call     content.CallID `json:"call"`
	Tool     string         `json:"tool"`
	State    string         `json:"state"` // waiting, approval, running, background or lost
	Route    string         `json:"route"`
	Turn     content.TurnID `json:"turn"`
	Round    int            `json:"round"`
	Attempts int            `json:"attempts"`
	Deadline *content.Time  `json:"deadline"` // null: none
}

// openCalls returns the open calls of a session, those in the background last.
func openCalls(s *loop.State) []openCall {
	all := []openCall{}
	asked := make(map[content.CallID]bool)
	for _, a := range s.PendingApprovals() {
		asked[a.CallID] = true
	}
	if s.Turn != nil {
		for _, c := range s.Turn.Calls {
			if c.Status == "" || c.Retried() {
				all = append(all, openCallOf(c, asked[c.ID]))
			}
		}
	}
	for _, c := range s.Background {
		if c.InBackground() {
			all = append(all, openCallOf(c, asked[c.ID]))
		}
	}
	return all
}

func openCallOf(c loop.Call, asked bool) openCall {
	o := openCall{
		Call: c.ID, Tool: c.Name, Route: app.RouteName(c.Routing.Route), Turn: c.Turn, Round: c.Round, Attempts: c.Attempt, State: "waiting",
	}
	switch {
	case asked:
		o.State = "approval"
	case c.InBackground():
		o.State = "background"
		if c.Routing.Route == content.Foreground { // it was detached
			o.Route = o.State
		}
	case c.Running():
		o.State = "running"
	}
	if c.Deadline != 0 {
		o.Deadline = &c.Deadline
	}
	return o
}

// Calls returns the command that lists a session's open calls.
func Calls(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calls SESSION",
		Short: "List the open tool calls of a session",
		Long: `Lists the calls of the open turn that have no result yet, and those that run in the
background. A call waits to start, waits for approval, runs, or runs in the background.`,
		Example: `  turnlog calls plan-7
  turnlog calls plan-7 -o json | jq -r '.[] | select(.state == "background") | .call'`,
	}
	output := a.Output(cmd)
	r := a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			state, err := readState(ctx, c, id)
			if err != nil {
				return err
			}
			all := openCalls(state)
			return output.Print(all, func(w io.Writer) error {
				return app.Table(w, "CALL TOOL STATE ROUTE ATTEMPTS DEADLINE", all, func(c openCall) []any {
					deadline := "none"
					if c.Deadline != nil {
						deadline = c.Deadline.String()
					}
					return []any{c.Call, c.Tool, c.State, c.Route, c.Attempts, deadline}
				})
			})
		})
	}
	return cmd
}

// Detach returns the command that sends a call to the background.
func Detach(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "detach SESSION CALL",
		Short: "Send a running call to the background",
		Long: `Sends a running call to the background: the model sees that, the turn continues, and the outcome
arrives later as a notification, which wakes the session.`,
		Example: `  turnlog calls plan-7
  turnlog detach plan-7 call_2_1`,
	}
	r := a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, call, err := parseCall(args)
		if err != nil {
			return err
		}
		return r.DoWith(cmd.Context(), id, func(ctx context.Context, s *session.Session) error {
			return s.Calls().Detach(ctx, call)
		})
	}
	return cmd
}

// Cancel returns the command that cancels a turn or a call.
func Cancel(a *app.App) *cobra.Command {
	var reason, call string
	cmd := &cobra.Command{
		Use:   "cancel SESSION",
		Short: "Cancel the open turn of a session, or one call",
		Long: `Cancels the session's open turn and waits until that is recorded. What has not started does not
start, and running calls are stopped. The session stays usable.

With --call only that call ends, even in the background, and the turn continues.`,
		Example: `  turnlog cancel plan-7
  turnlog cancel plan-7 --reason "wrong branch"
  turnlog cancel plan-7 --call call_2_1`,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that is recorded as the reason; default user_cancelled")
	cmd.Flags().StringVar(&call, "call", "", "`id` of the call to cancel, instead of the turn")
	r := a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("call") {
			return r.DoWith(cmd.Context(), id, func(ctx context.Context, s *session.Session) error { return s.Cancel(ctx, reason) })
		}
		one, err := app.ParseCall(call)
		if err != nil {
			return err
		}
		return r.DoWith(cmd.Context(), id, func(ctx context.Context, s *session.Session) error {
			return s.Calls().Cancel(ctx, one, reason)
		})
	}
	return cmd
}
