package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	store "github.com/turnlog/turnlog/jetstream/webhooks"
)

// do calls with with the deployment's store of endpoints.
func do(cmd *cobra.Command, r *app.Remote, with func(context.Context, *store.Store) error) error {
	return r.Do(cmd.Context(), func(ctx context.Context, cell *cli.Cell, _ *client.Client) error {
		err := with(ctx, store.Of(cell.Cell))
		if errors.Is(err, store.ErrNotFound) {
			err = fmt.Errorf("%w: \"turnlog webhooks ls\" lists endpoints, \"turnlog webhooks dead ls\" messages", err)
		}
		return err
	})
}

// row is an endpoint in reports.
type row struct {
	Endpoint string `json:"endpoint"`
	State    string `json:"state"` // active or disabled
	Waiting  int    `json:"waiting"`
	Dead     int    `json:"dead"`
	Position uint64 `json:"position"` // in the deployment's journal
	Why      string `json:"why,omitempty"`
}

func list(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List endpoints, with their waiting and dead messages",
		Long: `Lists the endpoints that got messages, one per line: the state, the numbers of waiting and dead messages, the
position in the journal up to which events were read, and why the endpoint is disabled or its oldest message
is waiting.`,
		Example: `  turnlog webhooks ls
  turnlog webhooks ls -o json | jq '.[] | select(.state == "disabled")'`,
	}
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return do(cmd, r, func(ctx context.Context, s *store.Store) error {
			names, err := s.Endpoints(ctx)
			if err != nil {
				return err
			}
			rows := []row{}
			for _, name := range names {
				one, err := rowOf(ctx, s, name)
				if err != nil {
					return err
				}
				rows = append(rows, one)
			}
			return output.Print(rows, func(w io.Writer) error {
				return app.Table(w, "ENDPOINT STATE WAITING DEAD POSITION WHY", rows, func(r row) []any {
					return []any{r.Endpoint, r.State, r.Waiting, r.Dead, r.Position, cmp.Or(r.Why, "-")}
				})
			})
		})
	}
	return cmd
}

func rowOf(ctx context.Context, s *store.Store, name string) (row, error) {
	state, _, err := s.Load(ctx, name)
	if err != nil {
		return row{}, err
	}
	dead, err := s.Dead(ctx, name)
	out := row{Endpoint: name, State: "active", Waiting: len(state.Waiting), Dead: len(dead), Position: state.At.Position}
	if out.Waiting > 0 {
		out.Why = state.Waiting[0].Failure
	}
	if state.Disabled != "" {
		out.State, out.Why = "disabled", state.Disabled
	}
	return out, err
}

func enable(r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "enable ENDPOINT",
		Short: "Enable a disabled endpoint",
		Long: `Enables an endpoint that was disabled because it answered 410, or because its position was no longer in the
journal. It continues where it stopped; with --skip it gets only new events.`,
		Example: `  turnlog webhooks enable slack
  turnlog webhooks enable slack --skip`,
	}
	skip := cmd.Flags().Bool("skip", false, "skip the events that the endpoint missed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return do(cmd, r, func(ctx context.Context, s *store.Store) error { return s.Enable(ctx, args[0], *skip) })
	}
	return cmd
}

func dead(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List, retry and drop messages that could not be delivered",
		Long: `A message is dead if no attempt to deliver it succeeded for a day. It stays in the list until it is
retried or dropped.`,
		Example: `  turnlog webhooks dead ls
  turnlog webhooks dead retry slack --all`,
	}
	cmd.AddCommand(listDead(a, r), settle(a, r, "retry", "Send dead messages again", "is sent again", (*store.Store).Retry),
		settle(a, r, "drop", "Remove dead messages from the list", "is dropped", (*store.Store).Drop))
	return cmd
}

// letter is a dead message in reports.
type letter struct {
	Endpoint string `json:"endpoint"`

	store.Message
}

func listDead(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [ENDPOINT]",
		Short: "List dead messages",
		Long:  `Lists dead messages, one per line, of one endpoint or of all: what they are about, and why they failed.`,
		Example: `  turnlog webhooks dead ls
  turnlog webhooks dead ls slack -o json | jq -r '.[].id'`,
	}
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return do(cmd, r, func(ctx context.Context, s *store.Store) (err error) {
			if len(names) == 0 {
				if names, err = s.Endpoints(ctx); err != nil {
					return err
				}
			}
			rows := []letter{}
			for _, name := range names {
				all, err := s.Dead(ctx, name)
				if err != nil {
					return err
				}
				for _, m := range all {
					rows = append(rows, letter{name, m})
				}
			}
			return output.Print(rows, func(w io.Writer) error {
				return app.Table(w, "ENDPOINT MESSAGE EVENT SESSION SINCE ATTEMPTS WHY", rows, func(l letter) []any {
					return []any{l.Endpoint, l.ID, l.Type, l.Session, app.When(l.First), l.Attempts, l.Failure}
				})
			})
		})
	}
	return cmd
}

// settle returns a command that decides about dead messages.
func settle(a *app.App, r *app.Remote, name, short, done string, with func(*store.Store, context.Context, string, string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:     name + " ENDPOINT [MESSAGE...]",
		Short:   short,
		Long:    short + ": those that are named, or with --all those of the endpoint.",
		Example: "  turnlog webhooks dead " + name + " slack msg_0f3a9b5c\n  turnlog webhooks dead " + name + " slack --all",
	}
	all := cmd.Flags().Bool("all", false, "all dead messages of the endpoint")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		endpoint, ids := args[0], args[1:]
		if *all == (len(ids) > 0) {
			return cli.Usage("name messages, or give --all")
		}
		return do(cmd, r, func(ctx context.Context, s *store.Store) error {
			if *all {
				letters, err := s.Dead(ctx, endpoint)
				if err != nil {
					return err
				}
				for _, m := range letters {
					ids = append(ids, m.ID)
				}
			}
			for _, id := range ids {
				if err := with(s, ctx, endpoint, id); err != nil {
					return err
				}
				if _, err := fmt.Fprintf(a.Out, "%s %s\n", id, done); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}
