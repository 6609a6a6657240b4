package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
)

func newExplainCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [SESSION] CALL",
		Short: "Explain who requested a tool call, why it could run, and how it ended",
		Long: `Explains in plain sentences what a journal records about one tool call: who requested it; the arguments,
as the model wrote them and as an approver changed them; the rules, approvals and hooks that allowed or denied
it; where it ran, with each attempt and each lost one; its result; and what models then saw of it. Each
sentence names the entry that records it.

CALL is any name that Turnlog prints: the id of the call, its path, such as t1-r2-c1, the id of one of its
approvals, such as t1-r2-c1-g1, or the provider's id. For a task's verifier it is the path, such as t1-v1.

Facts that the journal does not record are shown as "not recorded": why a call could start, in journals of
earlier releases, and what the policies of workers allow. The command explains what the journal says; "observer
verify" checks whether the journal can be trusted.

With --keys-root, the names of people who signed are those in the directory of keys, and if a signature is
invalid, the command shows only an error. Without it, the names are those that the deployment recorded.`,
		Example: `  observer explain s-42 call_1
  observer explain s-42 t1-r2-c1-g1 --full
  observer explain --file s-42.jsonl call_1 -o json`,
	}
	file, full := fileFlag(cmd), fullFlag(cmd)
	var signatures signatureFlags
	signatures.registerKeys(cmd)
	output := cli.OutputFlag(cmd, asText, asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (*file == "") != (len(args) == 2) {
			return cli.Usage("give SESSION and CALL, or --file and CALL")
		}
		if err := signatures.check(*file != ""); err != nil {
			return err
		}
		return a.onJournal(cmd, *file, args, func(in input) error {
			reader := explain.NewCallReader(in.args[0])
			directory, err := signatures.directory(cmd.Context(), in.cell)
			if err != nil {
				return err
			}
			records, check := checked(in, directory)
			reader.Named(owners(directory))
			if err := readAll(in.name, records, reader.Add); err != nil {
				return err
			}
			if err := check(); err != nil {
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

// printJSON writes a value that contains parts of events as JSON.
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

// owners returns the owners of keys from a directory.
func owners(d *keys.Directory) explain.Owners {
	if d == nil {
		return nil
	}
	return func(id string) string {
		k, _ := d.Lookup(id)
		return k.Name
	}
}

// checked yields the records of a journal, and returns a function that reports whether all signatures are valid according
// to a directory of keys. Only then do names count. Without a directory it checks nothing.
func checked(in input, d *keys.Directory) (iter.Seq2[journal.Record, error], func() error) {
	if d == nil {
		return in.records, func() error { return nil }
	}
	who := signed.NewAudit(d, true)
	return who.Watch(in.records), func() error {
		var v verdict.Verdict
		who.Judge(&v)
		if f, bad := v.First(); bad {
			return fmt.Errorf("%s: %s: \"observer verify --keys-root\" says more", in.name, f)
		}
		return nil
	}
}
