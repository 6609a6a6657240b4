package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/completeness"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/backup"
)

func newLogCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "Audit the log of heads",
		Long:    `The log of heads is a tree with the last entry of each session, which "turnlog notary" writes and witnesses cosign.`,
		Example: "  observer log audit --policy policy.txt --proof s-42.tlog-proof",
	}
	cmd.AddCommand(newLogAuditCommand(a))
	return cmd
}

func newLogAuditCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify the log of heads, and that all logged sessions still exist",
		Long: `Verifies the log of heads: its checkpoint against a policy, every tile and leaf against the checkpoint, and
that it extends the log of each earlier proof. Then it compares every logged session with its journal, which
must still have the logged entry with the same hash, or a tombstone. So it detects a log that was rolled back or
rewritten, and sessions that were removed, truncated or rewritten after they were logged. It also reports entries
that are missing from the log although they were stored at least ten minutes before its checkpoint was cosigned.

With --keys-root it also compares the logged versions of the directory of keys with those of the deployment, and
with your copy (--keys). No version may be missing or different, remove keys or revocations, or retire a key as of
a time before that version was published.

If the deployment was restored from a backup, the loss of what was logged between the backup and the restore is not
a fault. What witnesses saw before the backup must still exist.

Exit codes: 0 nothing is missing, 1 there is a fault, 2 wrong usage, 6 there is no fault, but the witnesses of
the checkpoint do not suffice for the policy, 7 there is no fault, but something was lost in a restore, or left with a
session that was moved and came back.`,
		Example: `  observer log audit --policy policy.txt
  observer log audit --policy policy.txt --keys-root "$(cat root.pub)" --keys directory
  observer log audit --policy policy.txt --proof march/s-7.tlog-proof --proof may/s-42.tlog-proof -o json`,
	}
	f := auditing{app: a, given: proofFlags(cmd, "of any session, made earlier, which the log must still continue")}
	f.keys.registerKeys(cmd)
	f.output = cli.OutputFlag(cmd, asText, asJSON)
	cmd.RunE = f.run
	return cmd
}

// auditing is what the command line asks for.
type auditing struct {
	app    *app
	given  *proofFiles
	keys   signatureFlags
	output *cli.Choice
}

func (f *auditing) run(cmd *cobra.Command, _ []string) error {
	policy, proofs, err := f.given.read()
	if err == nil {
		err = f.keys.check(false)
	}
	if err != nil {
		return err
	}
	if policy == nil {
		return cli.Usage("give --policy FILE: it lists the log and the witnesses to trust")
	}
	var earlier []headlog.Proof
	for i, text := range proofs {
		one, err := headlog.ParseFile(text)
		if err != nil {
			return &cli.ExitError{Code: cli.CodeFailed, Err: fmt.Errorf("--proof %s: %s: %w", f.given.proofs[i], completeness.KindOf(err), err)}
		}
		earlier = append(earlier, one.Heads...)
	}
	return f.app.with(cmd, func(cell *cli.Cell) error {
		with := completeness.Keys{Root: f.keys.root}
		if f.keys.file != "" {
			if with.Shown, err = f.keys.directory(cmd.Context(), cell); err != nil {
				return err
			}
		}
		restores, err := backup.Restores(cmd.Context(), cell.Cell)
		if err != nil {
			return err
		}
		r, err := completeness.Check(cmd.Context(), cell.Cell, policy, earlier, with, restores)
		if err != nil {
			return err
		}
		return f.report(cmd, r)
	})
}

// report prints a report, and returns the error with its exit code.
func (f *auditing) report(cmd *cobra.Command, r *completeness.Report) (err error) {
	if f.output.String() == asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	} else {
		err = printAudit(cmd.OutOrStdout(), f.app.style(cmd, false), r)
	}
	switch {
	case err != nil:
		return fmt.Errorf("write: %w", err)
	case !r.Judged() && len(r.Faults) > 0:
		return &cli.ExitError{Code: cli.CodeUnjudged, Err: fmt.Errorf("%s (%d in all)", r.Faults[0], len(r.Faults))}
	case len(r.Faults) > 0:
		return &cli.ExitError{Code: cli.CodeFailed, Err: fmt.Errorf("%s (%s in all)", r.Faults[0], render.Plural(len(r.Faults), "fault", "faults"))}
	case !r.Witnessed:
		return &cli.ExitError{Code: cli.CodeBelow, Err: fmt.Errorf("log %s: no fault, but its witnesses do not suffice for the policy", r.Log)}
	}
	return nil
}

func printAudit(w io.Writer, style render.Style, r *completeness.Report) error {
	var b strings.Builder
	headline := style.Good("ok") + " everything that was logged is still there."
	switch {
	case r.Judged():
		headline = style.Bad("broken") + " the log and the journals do not agree, or the log was changed."
	case len(r.Faults) > 0:
		headline = style.Bad("unjudged") + " nothing contradicts the log, but not everything that was logged is there."
	}
	fmt.Fprintln(&b, headline)
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "   %s\n", render.Safe(f.String()))
	}
	if r.Log != "" {
		fmt.Fprintf(&b, "   log      %s, %s, root %s\n", render.Safe(r.Log), render.Plural(int(r.Size), "leaf", "leaves"), r.Root)
	}
	for _, by := range r.Restores {
		fmt.Fprintf(&b, "   restored at %s from backup %s, which began at %s\n", by.At, render.Safe(by.Backup), by.Taken)
	}
	fmt.Fprintf(&b, "   sessions %d, of these %d deleted\n", r.Sessions, r.Deleted)
	if r.Directory > 0 {
		fmt.Fprintf(&b, "   keys     version %d of the directory is logged\n", r.Directory)
	}
	if len(r.Witnesses) > 0 {
		fmt.Fprintf(&b, "   cosigned by %s\n", render.Safe(strings.Join(r.Witnesses, ", ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// proofFiles are the files of proofs, and of the policy against which they are verified.
type proofFiles struct {
	policy string
	proofs []string
}

func proofFlags(cmd *cobra.Command, what string) *proofFiles {
	p := &proofFiles{}
	cmd.Flags().StringArrayVar(&p.proofs, "proof", nil, "`file` with a proof "+what+"; repeat it for several")
	cmd.Flags().StringVar(&p.policy, "policy", "", "`file` with the log and the witnesses to trust (C2SP tlog-policy)")
	return p
}

const (
	maxPolicy = 256 << 10 // bytes of a policy
	maxProof  = 64 << 20  // bytes of a proof, with several versions of a directory of keys
)

// read returns the policy, nil if there is none, and the texts of the proofs.
func (p *proofFiles) read() (by *headlog.Policy, proofs [][]byte, err error) {
	if p.policy == "" {
		if len(p.proofs) > 0 {
			return nil, nil, cli.Usage("--proof needs --policy FILE, which lists the log and the witnesses to trust")
		}
		return nil, nil, nil
	}
	text, err := readFile("--policy", p.policy, maxPolicy)
	if err != nil {
		return nil, nil, err
	}
	if by, err = headlog.ParsePolicy(text); err != nil {
		return nil, nil, cli.Usage("--policy %s: %w", p.policy, err)
	}
	for _, file := range p.proofs {
		text, err := readFile("--proof", file, maxProof)
		if err != nil {
			return nil, nil, err
		}
		proofs = append(proofs, text)
	}
	return by, proofs, nil
}
