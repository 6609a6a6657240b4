package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/attached"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/origin"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/jetstream/backup"
	"github.com/turnlog/turnlog/jetstream/seals"
)

func newVerifyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [SESSION]",
		Short: "Verify a session's journal, or an exported journal",
		Long: `Verifies that the entries of a journal form one unbroken chain, and that they satisfy every guarantee
of Turnlog: each call has one result, no budget is exceeded, nothing ran before it was approved, and
so on. With --file it needs no server.

It prints what is proved, as a level that includes the previous ones: chain, signed, anchored, witnessed. Then it
lists every fault, with its kind, entry and line, and then what is not proved. -o json prints the same.

No chain can show that a journal was truncated, or replaced from some entry on. To detect that, keep the output
of "observer heads" where users who can change journals cannot change it, and pass it as --anchor. Without SESSION,
it verifies the sessions of the anchors and proofs, and with --all also all sessions of the deployment.

It also checks the files that a journal refers to: those in the deployment, or with --file those in the --blobs
folder. For a fork, it compares the history with its origin: in the deployment, or with --file in the --origin file.

With --keys-root it verifies who signed: the session's drivers and workers, and the people who sent input or
decisions. It lists the signers, and what is not signed. --keys is the directory of keys that the root signed.

A proof ("observer export --proof") shows that the log of heads has a head of the session. With --policy, which
lists the log and the witnesses to trust, it proves that witnesses saw that head: the level witnessed. Several proofs
of one log are also compared with each other.

Exit codes: 0 the level is reached, 1 there is a fault, 2 wrong usage, 6 there is no fault, but the level of
--require is not reached, or no anchor or proof has a head of the session, 7 something cannot be judged (a later
format, an anchor covered by a tombstone or lost in a restore), 8 the session was deleted, erased or moved, or has
expired.`,
		Example: `  observer verify s-42
  observer verify --file s-42.jsonl
  observer verify --file s-42.jsonl -o json
  observer verify --anchor heads.jsonl --require anchored
  observer verify --file s-42.jsonl --keys turnlog-keys/directory --keys-root "$(cat turnlog-keys/root.pub)" --require signed
  observer verify --file s-42.jsonl --proof s-42.tlog-proof --policy policy.txt --require witnessed
  observer verify --all
  zstdcat s-42.jsonl.zst | observer verify --file -`,
	}
	f := verifyFlags{verifier: verifier{app: a, require: verdict.Chain}}
	f.register(cmd)
	cmd.RunE = f.run
	return cmd
}

// verifyFlags are what the command line asks for.
type verifyFlags struct {
	verifier

	output *cli.Choice
	anchor *string
	given  *proofFiles
	all    bool
}

func (f *verifyFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.file, "file", "", "verify an exported `file`; - is standard input")
	f.output = cli.OutputFlag(cmd, asText, asJSON)
	f.anchor = anchorFlag(cmd)
	f.given = proofFlags(cmd, "that the log of heads has the session")
	blobsFlag(cmd, &f.blobs, "with --file: `folder` that \"observer export --blobs\" wrote, whose files are checked")
	fs.StringVar(&f.origin, "origin", "", "with --file, for a fork: exported `file` of its origin, to compare the history with")
	_ = cmd.MarkFlagFilename("origin") // the flag exists
	fs.BoolVar(&f.all, "all", false, "verify all sessions of the deployment")
	f.signatures.register(cmd)
	fs.TextVar(&f.require, "require", verdict.Chain, "`level` to reach: "+verdict.LevelNames())
}

// check returns an error for flags that contradict each other.
func (f *verifyFlags) check(args []string) error {
	switch {
	case f.all && (f.file != "" || len(args) > 0):
		return cli.Usage("--all is about every session: give neither SESSION nor --file")
	case !f.all && (f.file == "") == (len(args) == 0) && (*f.anchor == "" && len(f.given.proofs) == 0 || f.file != ""):
		return cli.Usage("give a SESSION, --file, --all, --anchor or --proof")
	case f.blobs != "" && f.file == "":
		return cli.Usage("--blobs is for --file: the blobs of a deployment are checked anyway")
	case f.origin != "" && f.file == "":
		return cli.Usage("--origin is for --file: in a deployment the origin is read anyway")
	}
	if err := checkExternal(f.blobs, f.origin); err != nil {
		return err
	}
	return f.signatures.check(f.file != "" && len(f.given.proofs) == 0)
}

func (f *verifyFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	v := f.verifier
	v.cmd, v.json, v.single = cmd, f.output.String() == asJSON, f.file != "" || len(args) == 1
	if err := v.readAnchors(*f.anchor); err != nil {
		return err
	}
	if err := v.readProofs(f.given); err != nil {
		return err
	}
	if v.file != "" {
		if err := v.chooseKeys(cmd.Context(), nil); err != nil {
			return err
		}
		v.external = v.externalOfFile()
		return v.report(v.judgeFile())
	}
	sessions, err := cli.ParseSessions(args)
	if err != nil {
		return err
	}
	return v.app.with(cmd, func(cell *cli.Cell) error {
		if err := v.chooseKeys(cmd.Context(), cell); err != nil {
			return err
		}
		if v.external, err = externalOf(cmd.Context(), cell); err != nil {
			return err
		}
		if f.all {
			if v.listed, err = cell.Journal().Sessions(cmd.Context()); err != nil {
				return err
			}
		}
		if len(args) == 0 {
			sessions = v.sessions()
		}
		return v.judgeAll(cmd.Context(), cell, sessions)
	})
}

// checkExternal returns an error if a given folder of files or origin does not exist, even if the journal does not need it.
func checkExternal(blobs, of string) error {
	if blobs != "" {
		info, err := os.Stat(blobs)
		if err == nil && !info.IsDir() {
			err = errors.New("not a folder")
		}
		if err != nil {
			return unusable("--blobs", blobs, err)
		}
	}
	switch of {
	case "":
		return nil
	case "-":
		return cli.Usage("--origin is read twice: name a file, not standard input")
	}
	f, err := textfile.Open(of)
	if err != nil {
		return unusable("--origin", of, err)
	}
	return f.Close()
}

// anchorFlag adds the flag that names earlier heads.
func anchorFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("anchor", "", "`file` of \"observer heads\" with earlier heads, which must still be in the journals; - is standard input")
}

// blobsFlag adds the flag that names a folder of files.
func blobsFlag(cmd *cobra.Command, dir *string, usage string) {
	cmd.Flags().StringVar(dir, "blobs", "", usage)
	_ = cmd.MarkFlagDirname("blobs") // the flag exists
}

// namespaceOf returns the name of a deployment, "" without one.
func namespaceOf(cell *cli.Cell) string {
	if cell == nil {
		return ""
	}
	return cell.Namespace()
}

// external has the data outside a journal that it is checked against.
type external struct {
	files  attached.Store
	origin origin.Reader // of the session that it is a fork of

	seals    *seals.Keys       // keys of sealed sessions; nil: there is no deployment
	restores []verdict.Restore // restores that the deployment records
}

// externalOf returns the external data of a deployment, or nothing without a deployment.
func externalOf(ctx context.Context, cell *cli.Cell) (external, error) {
	if cell == nil {
		return external{}, nil
	}
	restores, err := backup.Restores(ctx, cell.Cell)
	return external{cell.Blobs(), engine.Reader{Journal: cell.Journal()}.ReadTo, seals.Of(cell.Cell), restores}, err
}

// judgeClaims compares the restores that a journal names with the restores that the deployment records. Only the marks of entries show
// whether a session was moved there, and an export does not have them.
func (by external) judgeClaims(v *verdict.Verdict, says *audit.Claims) {
	switch {
	case by.seals != nil:
		for _, f := range says.Compare(by.restores) {
			v.Add(f)
		}
	case len(v.Restores)+len(v.Moves) > 0:
		v.Doubt("restores and moves: they were not compared with the deployment's records")
	}
}

// judgeErasure checks that the key of an erased session no longer exists. Without a deployment, only its tombstone can be checked.
func (by external) judgeErasure(ctx context.Context, v *verdict.Verdict) error {
	if v.State != verdict.Erased || by.seals == nil {
		return nil
	}
	left, err := by.seals.Left(ctx, v.Session)
	if err != nil || !left {
		return err
	}
	v.Add(verdict.Fault{
		Kind: verdict.RolledBack, Seq: v.Head.Seq,
		What: "its content was not erased, or was restored: the key exists. Run \"turnlog sessions erase\" again to destroy it",
	})
	v.Settle()
	return nil
}

// externalOfFile returns the external data that is available for an exported journal.
func (v *verifier) externalOfFile() (by external) {
	if v.blobs != "" {
		by.files = attached.Folder(v.blobs)
	}
	if v.origin != "" {
		by.origin = v.readOrigin
	}
	return by
}

// readOrigin folds an exported origin. It verifies the chain first: otherwise the hash of one entry proves nothing about
// the other entries in the file.
func (v *verifier) readOrigin(_ context.Context, s content.SessionID, seq uint64) (to engine.Replica, err error) {
	err = v.importOrigin(func(records iter.Seq2[journal.Record, error]) error { //nolint:contextcheck // the command has it
		out, err := audit.VerifyImported(records)
		first, bad := out.First()
		switch {
		case err == nil && out.Session != s:
			err = fmt.Errorf("it is of session %s", out.Session)
		case err == nil && bad:
			err = errors.New(first.String())
		}
		return err
	})
	if err == nil {
		err = v.importOrigin(func(records iter.Seq2[journal.Record, error]) (err error) { //nolint:contextcheck // likewise
			to, err = engine.FoldTo(s, records, seq)
			return err
		})
	}
	return to, err
}

func (v *verifier) importOrigin(use func(iter.Seq2[journal.Record, error]) error) error {
	in, name, err := openFile(v.cmd, "--origin", v.origin)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	if err := use(audit.Import(in)); err != nil {
		return fmt.Errorf("--origin %s: %w", name, err)
	}
	return nil
}

// verifier verifies journals one by one.
type verifier struct {
	app     *app
	cmd     *cobra.Command
	file    string // "": sessions
	origin  string // the file with the origin of the exported journal; "": there is none
	blobs   string // the folder with the files that the exported journal refers to; "": there is none
	json    bool
	require verdict.Level
	anchors map[content.SessionID][]audit.Anchor // includes the heads of proofs
	proofs  []proved
	single  bool                // one journal was named, so every proof is about it
	listed  []content.SessionID // with --all: the sessions of the deployment

	signatures signatureFlags
	keys       *keys.Directory // nil: signatures are not checked
	external   external

	log                    signed.Log // what the proofs show of the log
	keyFaults, keyWarnings []verdict.Fault
	logFaults, logWarnings []verdict.Fault
}

// readAnchors reads earlier heads.
func (v *verifier) readAnchors(file string) error {
	switch file {
	case "":
		return nil
	case "-":
		if v.file == "-" {
			return cli.Usage("--file and --anchor cannot both be standard input")
		}
	}
	in, _, err := openFile(v.cmd, "--anchor", file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	all, err := audit.ReadAnchors(in)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: it is empty", audit.ErrBadAnchor)
	}
	if err != nil {
		return cli.Usage("--anchor %s: %w", file, err)
	}
	v.anchored(all...)
	return nil
}

// anchored adds earlier heads.
func (v *verifier) anchored(all ...audit.Anchor) {
	if v.anchors == nil {
		v.anchors = map[content.SessionID][]audit.Anchor{}
	}
	for _, a := range all {
		v.anchors[a.Session] = append(v.anchors[a.Session], a)
	}
}

// allAnchors returns the earlier heads of all sessions. Which session a file belongs to is known only when it is read.
func (v *verifier) allAnchors() (all []audit.Anchor) {
	for _, s := range slices.Sorted(maps.Keys(v.anchors)) {
		all = append(all, v.anchors[s]...)
	}
	return all
}

// sessions returns the sessions that the deployment listed, and the sessions that anchors and proofs name: a session
// that no longer exists is in no list.
func (v *verifier) sessions() []content.SessionID {
	all := slices.Clone(v.listed)
	for s := range v.anchors {
		all = append(all, s)
	}
	for _, p := range v.proofs {
		all = append(all, p.leaf.Session)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fileMemory is how much memory the program may use before it collects garbage more often. A journal of 505,000
// entries needs less than half of it.
const fileMemory = 400 << 20

// fileGarbage is how much garbage is allowed below fileMemory, in percent of the memory in use. Collecting it less
// often saves a tenth of the time.
const fileGarbage = 200

// judgeFile verifies the file.
func (v *verifier) judgeFile() (j judgment) {
	var in io.ReadCloser
	if in, j.subject, j.err = openFile(v.cmd, "--file", v.file); j.err != nil {
		return j
	}
	defer func() { _ = in.Close() }() // only read
	if v.app.getenv("GOMEMLIMIT") == "" && v.app.getenv("GOGC") == "" {
		debug.SetMemoryLimit(fileMemory)
		debug.SetGCPercent(fileGarbage)
	}
	if j.Verdict, j.err = v.verify(v.cmd.Context(), audit.Import(in), v.allAnchors()); j.err != nil {
		j.err = fmt.Errorf("%s: %w", j.subject, j.err)
	}
	j.anchored = len(v.anchors[j.Session]) > 0
	v.addProofs(j, "")
	return j
}

// judge verifies a session.
func (v *verifier) judge(ctx context.Context, cell *cli.Cell, s content.SessionID) (j judgment) {
	anchors := v.anchors[s]
	j.Verdict, j.err = v.verify(ctx, read(ctx, cell, s, 1), anchors)
	if _, bad := j.First(); (bad || j.err != nil) && j.Tombstone == nil && v.deleted(ctx, cell, s) { // while it was read
		j.Verdict, j.err = v.verify(ctx, read(ctx, cell, s, 1), anchors)
	}
	if errors.Is(j.err, journal.ErrNotFound) && j.Verdict != nil {
		if audit.Absent(j.Verdict, v.external.restores, anchors...); j.Has(verdict.Restored) {
			j.err = nil
		}
	}
	if errors.Is(j.err, journal.ErrNotFound) && slices.Contains(v.listed, s) { // its tombstone no longer exists either
		j.err, j.State = nil, verdict.Deleted
		j.Settle()
	}
	j.subject, j.anchored, j.Session = "session "+string(s), len(anchors) > 0, s // even if there is no entry
	v.addProofs(j, cell.Namespace())
	return j
}

// deleted reports whether a session has a tombstone.
func (v *verifier) deleted(ctx context.Context, cell *cli.Cell, s content.SessionID) bool {
	last, err := cell.Journal().Last(ctx, s)
	_, deleted := events.DeletionOf(last.Entry)
	return err == nil && deleted
}
