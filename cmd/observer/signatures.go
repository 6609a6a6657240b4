package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/attached"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/origin"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// signatureFlags say with which keys signatures are checked.
type signatureFlags struct {
	file  string
	root  string
	every bool
}

// register adds the flags to cmd.
func (f *signatureFlags) register(cmd *cobra.Command) {
	f.registerKeys(cmd)
	cmd.Flags().BoolVar(&f.every, "every-signature", false, "verify every signature; default: only the last one of each driver's key, and those of people")
}

// registerKeys adds only the flags that name keys.
func (f *signatureFlags) registerKeys(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.root, "keys-root", "", "public `key` of the root that signs the directory of keys; default: signatures are not verified")
	fs.StringVar(&f.file, "keys", "", "`file` with the directory of keys; default: that of the deployment")
}

// check returns an error for flags that contradict each other. offline says that there is no deployment.
func (f *signatureFlags) check(offline bool) error {
	switch {
	case f.root == "" && (f.file != "" || f.every):
		return cli.Usage("--keys and --every-signature need --keys-root, the public key in root.pub of \"turnlog keys init\"")
	case f.root == "":
		return nil
	case f.file == "" && offline:
		return cli.Usage("--file needs --keys to check signatures: \"turnlog keys init\" keeps a file \"directory\"")
	}
	if err := keys.CheckRoot(f.root); err != nil {
		return cli.Usage("--keys-root: %w", err)
	}
	return nil
}

// directories returns the directory of keys: all versions that a deployment has, or the version in the file. It returns
// none if signatures are not checked. It may return none without a deployment: then a proof may have it.
func (f *signatureFlags) directories(ctx context.Context, cell *cli.Cell) (all []*keys.Directory, err error) {
	if f.root == "" || f.file == "" && cell == nil {
		return nil, nil
	}
	if f.file == "" {
		for v, err := range signers.Versions(ctx, cell.Cell, f.root, 0) {
			if err != nil {
				return nil, err
			}
			all = append(all, v.Directory)
		}
		if len(all) == 0 {
			err = signers.None(cell.Cell, f.root)
		}
		return all, err
	}
	raw, err := readFile("--keys", f.file, keys.MaxDirectory)
	if err != nil {
		return nil, err
	}
	d, err := keys.Open(raw, f.root)
	if err == nil && cell != nil && d.Cell != cell.Namespace() {
		err = fmt.Errorf("it is of cell %s, not %s", d.Cell, cell.Namespace())
	}
	if err != nil {
		return nil, cli.Usage("--keys %s: %w", f.file, err)
	}
	return []*keys.Directory{d}, nil
}

// directory returns the newest version of directories, or nil if there is none.
func (f *signatureFlags) directory(ctx context.Context, cell *cli.Cell) (*keys.Directory, error) {
	all, err := f.directories(ctx, cell)
	if err != nil {
		return nil, err
	}
	newest, faults, _ := (*signed.Log)(nil).Newest(all)
	if len(faults) > 0 {
		err = &cli.ExitError{Code: cli.CodeFailed, Err: &verdict.FaultError{Fault: faults[0]}}
	}
	return newest, err
}

// currentKeys follows the directory of keys while it changes.
type currentKeys struct {
	keys func() *keys.Directory // nil: signatures are not checked
	cell *signers.Directory     // nil: they are from a file
	read time.Time              // when the directory of the cell was read
}

// current returns the current directory of keys, which follows changes. With keys.ErrRolledBack the root has contradicted
// itself, and the previous version counts.
func (f *signatureFlags) current(ctx context.Context, cell *cli.Cell) (k currentKeys, err error) {
	switch {
	case f.root == "":
		return k, nil
	case f.file == "":
		if k.cell, err = signers.Open(ctx, cell.Cell, f.root); k.cell != nil {
			k.keys, k.read = k.cell.Newest, time.Now()
		}
		return k, err
	}
	d, err := f.directory(ctx, cell)
	k.keys = func() *keys.Directory { return d }
	return k, err
}

// follow reads the directory again before a record is checked, if the known version is some seconds old, or if a driver uses
// a newer one. A thief of a key uses the version that did not revoke it. follow returns keys.ErrRolledBack, once, if the root
// contradicts itself: then the earlier version still counts.
func (k *currentKeys) follow(ctx context.Context, r journal.Record) error {
	if k.cell == nil {
		return nil
	}
	newer := false
	if len(r.Entry.Events) > 0 {
		claim, ok := r.Entry.Events[0].(events.DriverClaimed)
		newer = ok && claim.Keys > k.keys().Version
	}
	if !newer && time.Since(k.read) < signers.Refreshed {
		return nil
	}
	k.read = time.Now()
	return k.cell.Refresh(ctx)
}

// verify verifies records. With keys, it verifies their signatures. It also checks the files, the origin and the
// deployment to which they refer, as far as these are available.
func (v *verifier) verify(ctx context.Context, records iter.Seq2[journal.Record, error], anchors []audit.Anchor) (*verdict.Verdict, error) {
	check := audit.Verify
	if v.file != "" {
		check = audit.VerifyImported
	}
	var files attached.Files
	var fork origin.Fork
	var says audit.Claims
	records = says.Watch(fork.Watch(files.Watch(records)))
	var who *signed.Audit
	if v.keys != nil {
		who = signed.NewAudit(v.keys, v.signatures.every)
		if len(v.log.Heads) > 0 {
			who.In(&v.log)
		}
		records = who.Watch(records)
	}
	out, err := check(records, anchors...)
	for _, f := range v.keyFaults {
		out.Add(f)
	}
	out.Warnings = append(out.Warnings, v.keyWarnings...)
	if who != nil {
		who.Judge(out)
	}
	v.external.judgeClaims(out, &says)
	out.Settle()
	if err == nil {
		err = cmp.Or(files.Judge(ctx, out, v.external.files), fork.Judge(ctx, out, v.external.origin), v.external.judgeErasure(ctx, out))
	}
	if err != nil {
		out.Level = verdict.None
	}
	return out, err
}
