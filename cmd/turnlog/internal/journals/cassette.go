package journals

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/model/record"
)

// Cassette returns the command that makes a cassette of a session.
func Cassette(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cassette SESSION",
		Short: "Write the model replies of a session to a cassette, for the model replay:FILE",
		Long: `Prints a cassette with every model reply and failure of a session, or of an exported file (an argument
with a dot or a slash). The model replay:FILE answers the same conversations with these replies, even with
other tools. With replay:FILE?match=nearest it answers a different conversation like the most similar one.

A cassette contains text of people and tools. --redact removes a text from it.`,
		Example: `  turnlog cassette plan-7 > plan-7.cassette
  turnlog run --model replay:plan-7.cassette "What is here?"`,
	}
	r := a.RemoteClient(cmd)
	redact := cmd.Flags().StringArray("redact", nil, "remove this `text` of at least 8 bytes from the cassette; repeatable")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, text := range *redact {
			if len(text) < record.MinSecret {
				return cli.Usage("--redact: give at least %d bytes: shorter texts are parts of words", record.MinSecret)
			}
		}
		return with(cmd.Context(), r, args, func(_ context.Context, records func(string) iter.Seq2[journal.Record, error]) error {
			data, err := record.FromJournal(records(args[0]), record.Config{Secrets: *redact})
			if err != nil {
				return fmt.Errorf("cassette of %s: %w", args[0], err)
			}
			_, err = a.Out.Write(data)
			return err
		})
	}
	return cmd
}
