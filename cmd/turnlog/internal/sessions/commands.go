package sessions

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// parseArguments parses the arguments SESSION and, if there are two, CALL.
func parseArguments(args []string) (id content.SessionID, call content.CallID, err error) {
	if id, err = cli.ParseSession(args[0]); err == nil && len(args) > 1 {
		call, err = app.ParseCall(args[1])
	}
	return id, call, err
}

// showing completes a command that reads and prints something about one session.
func showing[R any](
	r *app.Remote, cmd *cobra.Command,
	read func(context.Context, *client.Client, content.SessionID, content.CallID) (R, error), print func(R, io.Writer) error,
) *cobra.Command {
	output := r.App.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, call, err := parseArguments(args)
		if err != nil {
			return err
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			v, err := read(ctx, c, id, call)
			if err != nil {
				return err
			}
			return output.Print(v, func(w io.Writer) error { return print(v, w) })
		})
	}
	return cmd
}

// acting completes a command that does something with one session.
func acting(
	r *app.Remote, cmd *cobra.Command, do func(context.Context, *client.Client, *session.Session, content.CallID) error,
) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, call, err := parseArguments(args)
		if err != nil {
			return err
		}
		return r.DoWith(cmd.Context(), id, func(ctx context.Context, c *client.Client, s *session.Session) error {
			return do(ctx, c, s, openCallOf(s, call))
		})
	}
	return cmd
}

// openCallOf returns the ID of the open call to which a printed ID belongs: its own ID, its
// place, or the ID of one of its approvals. Other IDs are returned unchanged.
func openCallOf(s *session.Session, id content.CallID) content.CallID {
	for _, c := range s.Calls().List() {
		if c.Place == report.PlaceOf(id) {
			return c.Call
		}
	}
	return id
}

// listing is a command that lists something of one session or of all.
type listing[R any] struct {
	short, long, example string

	listed func(*client.Client, context.Context) ([]content.SessionID, error) // the sessions that have something to list
	read   func(context.Context, *client.Client, content.SessionID) ([]R, error)
	header string
	cells  func(R) []any
}

func listOf[R any](a *app.App, l listing[R]) *cobra.Command {
	cmd := &cobra.Command{Use: "ls [SESSION]", Aliases: []string{"list"}, Short: l.short, Long: l.long, Example: l.example}
	output := a.Output(cmd)
	r := a.RemoteApprover(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var one content.SessionID
		var err error
		if len(args) > 0 {
			if one, err = cli.ParseSession(args[0]); err != nil {
				return err
			}
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			rows, err := l.rows(ctx, a, c, one)
			if err != nil {
				return err
			}
			return output.Print(rows, func(w io.Writer) error { return app.Table(w, l.header, rows, l.cells) })
		})
	}
	return cmd
}

// rows reads one session, or all listed sessions. A listed session that cannot be read is
// reported and skipped.
func (l listing[R]) rows(ctx context.Context, a *app.App, c *client.Client, one content.SessionID) ([]R, error) {
	all := []R{}
	if one != "" {
		rows, err := l.read(ctx, c, one)
		return append(all, rows...), err
	}
	ids, err := l.listed(c, ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		rows, err := l.read(ctx, c, id)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case isDeleted(err): // "turnlog gc" removes it from the list
		case err != nil:
			a.Complain(err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

func isDeleted(err error) bool {
	_, deleted := errors.AsType[*session.DeletedError](err)
	return deleted
}
