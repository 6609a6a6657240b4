package sessions

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// openCall is a call whose outcome is still to come.
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

// openCalls lists the calls of a session that are not over, those in the background
// last.
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
		Short: "List the tool calls of a session that are not over",
		Long: `Lists the calls of the open turn that have no result yet, and those that run in the
background. A call is waiting for its turn, for an approval, running, or in the background.`,
		Example: `  turnlog calls plan-7
  turnlog calls plan-7 -o json | jq -r '.[] | select(.state == "background") | .call'`,
	}
	output := cli.OutputFlag(cmd, "text", "json")
	r := a.Remote(cmd, jetstream.RoleClient)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			state, _, err := c.Read(ctx, id)
			if err != nil {
				return app.NoSession(id, err)
			}
			if state.Deleted != nil {
				return &client.DeletedError{Session: id, Deletion: *state.Deleted}
			}
			all := openCalls(state)
			if output.String() == "json" {
				return app.WriteJSON(a.Out, all)
			}
			return printCalls(a.Out, all)
		})
	}
	return cmd
}

func printCalls(w io.Writer, all []openCall) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "CALL\tTOOL\tSTATE\tROUTE\tATTEMPTS\tDEADLINE")
	for _, c := range all {
		deadline := "none"
		if c.Deadline != nil {
			deadline = c.Deadline.String()
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\n", c.Call, render.Safe(c.Tool), c.State, c.Route, c.Attempts, deadline)
	}
	return t.Flush()
}

// Detach returns the command that sends a call to the background.
func Detach(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "detach SESSION CALL",
		Short: "Send a running call to the background",
		Long: `Sends a running call to the background: the model is told so, the turn goes on, and the outcome
comes later as a notification, which wakes the session.`,
		Example: `  turnlog calls plan-7
  turnlog detach plan-7 call_2_1`,
	}
	r := a.Remote(cmd, jetstream.RoleClient)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		call, err := app.ParseCall(args[1])
		if err != nil {
			return err
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			return r.Ask(ctx, c, id, func(ctx context.Context, s *client.Session) error { return s.DetachCall(ctx, call) })
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
		Long: `Asks for the end of the session's open turn and waits until that is recorded. What has not
started does not start; what runs is told to stop. The session can be used on.

With --call only that call ends, also in the background, and the turn goes on.`,
		Example: `  turnlog cancel plan-7
  turnlog cancel plan-7 --reason "wrong branch"
  turnlog cancel plan-7 --call call_2_1`,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that is recorded as the reason; default user_cancelled")
	cmd.Flags().StringVar(&call, "call", "", "`id` of the call to cancel, instead of the turn")
	r := a.Remote(cmd, jetstream.RoleClient)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		stop := func(ctx context.Context, s *client.Session) error { return s.Cancel(ctx, reason) }
		if cmd.Flags().Changed("call") {
			one, err := app.ParseCall(call)
			if err != nil {
				return err
			}
			stop = func(ctx context.Context, s *client.Session) error { return s.CancelCall(ctx, one, reason) }
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			return r.Ask(ctx, c, id, stop)
		})
	}
	return cmd
}
