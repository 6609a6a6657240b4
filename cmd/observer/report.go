package main

import (
	"iter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
)

// Output formats of reports.
const (
	asMarkdown = "markdown"
	asHTML     = "html"
)

func newReportCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report [SESSION]",
		Short: "Write one page about a session for people who do not read journals",
		Long: `Writes a page about a session: the verdict of "observer verify", the people, inputs and answers, every
call that may have changed something, denied calls, and what is not proved. A call may change something
unless its tool declares that it only reads.

The page is Markdown, or with -o html one self-contained HTML file without scripts. A damaged journal is
reported as far as it can be read. Then the page begins with a warning not to rely on it, and the exit code is
that of "observer verify".`,
		Example: `  observer report s-42
  observer report s-42 -o html --anchor heads.jsonl > s-42.html
  observer report --file s-42.jsonl --proof s-42.tlog-proof --policy policy.txt
  observer report --file s-42.jsonl -o json | jq '.denied[].tool'`,
	}
	file := fileFlag(cmd)
	anchor := anchorFlag(cmd)
	proofs := proofFlags(cmd, "that the log of heads has the session")
	var signatures signatureFlags
	signatures.registerKeys(cmd)
	output := cli.OutputFlag(cmd, asMarkdown, asHTML, asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (*file == "") == (len(args) == 0) {
			return cli.Usage("give a SESSION or --file")
		}
		with := verifier{app: a, cmd: cmd, file: *file, require: verdict.Chain, signatures: signatures, single: true}
		if err := signatures.check(*file != "" && len(proofs.proofs) == 0); err != nil {
			return err
		}
		if err := with.readAnchors(*anchor); err != nil {
			return err
		}
		if err := with.readProofs(proofs); err != nil {
			return err
		}
		return a.onJournal(cmd, *file, args, func(in input) (err error) {
			if err := with.chooseKeys(cmd.Context(), in.cell); err != nil {
				return err
			}
			if with.external, err = externalOf(cmd.Context(), in.cell); err != nil {
				return err
			}
			reader := explain.NewReportReader()
			reader.Named(owners(with.keys))
			v, err := with.verify(cmd.Context(), passing(in.records, reader.Add), with.allAnchors())
			if err != nil {
				return err
			}
			j := judgment{Verdict: v, subject: in.name, anchored: len(with.anchors[v.Session]) > 0}
			with.addProofs(j, namespaceOf(in.cell))
			if err := printReport(cmd, output.String(), reader.Report(), v); err != nil {
				return err
			}
			return j.outcome(&with)
		})
	}
	return cmd
}

// passing passes records on, each to add first.
func passing(records iter.Seq2[journal.Record, error], add func(journal.Record)) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for rec, err := range records {
			if err == nil {
				add(rec)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

func printReport(cmd *cobra.Command, format string, r explain.Report, v *verdict.Verdict) error {
	out := cmd.OutOrStdout()
	switch format {
	case asJSON:
		return printJSON(cmd, struct {
			explain.Report
			Verdict *verdict.Verdict `json:"verdict"`
		}{r, v})
	case asHTML:
		return render.HTML(out, r, v)
	}
	return render.Markdown(out, r, v)
}
