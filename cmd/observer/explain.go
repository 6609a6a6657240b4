package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
)

func newExplainCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [SESSION] CALL",
		Short: "Say who asked for a tool call, what let it run, and what came of it",
		Long: `Says in plain sentences what a journal records about one tool call: who asked for it; with what
arguments it ran, as the model wrote them and as an approver changed them; which rules, approvals and hooks
let it run, or denied it; where it ran, with every attempt and every lost one; what came back; and what
models then saw of it. Each sentence names the entry that says so.

CALL is any name that Turnlog prints: the id of the call, its place, such as t1-r2-c1, the id of one of
its approvals, such as t1-r2-c1-g1, or the id that the provider gave it. Of a task's verifier it is the place,
such as t1-v1.

What a journal does not record is "not recorded": grounds of a start in journals of earlier releases, and
what the policies of workers allow. It explains what the journal says; whether the journal can be believed
is what "observer verify" says.`,
		Example: `  observer explain s-42 call_1
  observer explain s-42 t1-r2-c1-g1 --full
  observer explain --file s-42.jsonl call_1 -o json`,
		Args: cobra.RangeArgs(1, 2),
	}
	file, full := fileFlag(cmd), fullFlag(cmd)
	output := cli.OutputFlag(cmd, asText, asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (*file == "") != (len(args) == 2) {
			return cli.Usage("give SESSION and CALL, or --file and CALL")
		}
		return a.onJournal(cmd, *file, args, func(in input) error {
			reader := explain.NewCallReader(in.args[0])
			if err := readAll(in.name, in.records, reader.Add); err != nil {
				return err
			}
			c, err := reader.Call()
			switch {
			case errors.Is(err, explain.ErrNoCall):
				return fmt.Errorf("%s: %w: \"observer events\" shows the ids of all calls", in.name, err)
			case errors.Is(err, explain.ErrSeveral):
				return fmt.Errorf("%s: %w: give a name that only one has", in.name, err)
			case err != nil:
				return fmt.Errorf("%s: %w", in.name, err)
			}
			if output.String() == asJSON {
				return printJSON(cmd, c)
			}
			return render.Explain(cmd.OutOrStdout(), a.style(cmd, *full), c)
		})
	}
	return cmd
}

// printJSON writes a value that has parts of events as JSON.
func printJSON(cmd *cobra.Command, value any) error {
	raw, err := events.MarshalView(value)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("indent: %w", err)
	}
	out := cmd.OutOrStdout()
	if cli.IsTerminal(out) {
		out = render.Terminal(out)
	}
	if _, err := fmt.Fprintln(out, b.String()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
