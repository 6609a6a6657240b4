package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/completeness"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// proved is a proof that was verified against the policy.
type proved struct {
	leaf  headlog.Leaf
	at    headlog.Witnessed
	fault *verdict.Fault // why it does not count
}

// readProofs reads and verifies proofs. Valid proofs are also anchors. A proof that names no session is a fault of the
// journal if only one was named, and otherwise ends the program.
func (v *verifier) readProofs(files *proofFiles) error {
	by, texts, err := files.read()
	if err != nil {
		return err
	}
	for i, text := range texts {
		v.prove(by, files.proofs[i], text)
	}
	v.logFaults, v.logWarnings = disagree(v.proofs)
	for _, p := range v.proofs {
		switch {
		case p.fault == nil:
			v.anchored(audit.Anchor{Session: p.leaf.Session, Seq: p.leaf.Seq, Hash: p.leaf.Hash, At: p.at.By()})
		case p.leaf.Session == "" && !v.single:
			return &cli.ExitError{Code: cli.CodeFailed, Err: &verdict.FaultError{Fault: *p.fault}}
		}
	}
	return nil
}

// addProofs adds what the proofs show to the verdict on a journal, which was checked with their anchors. cell is the cell
// of the journal, or "" if it is not known.
func (v *verifier) addProofs(j judgment, cell string) {
	if len(v.proofs) == 0 || j.err != nil {
		return
	}
	for _, p := range v.proofs {
		if v.single || p.leaf.Session == j.Session {
			p.add(j.Verdict, cell)
		}
	}
	j.Faults, j.Warnings = append(j.Faults, v.logFaults...), append(j.Warnings, v.logWarnings...)
	j.Settle()
}

// prove verifies the proofs of a file. Signatures are judged by the versions of the directory of keys that witnesses saw.
func (v *verifier) prove(by *headlog.Policy, name string, text []byte) {
	file, err := headlog.ParseFile(text)
	one := proved{}
	if len(file.Heads) > 0 {
		one.leaf = file.Heads[0].Leaf
	}
	failed := func(leaf headlog.Leaf, err error) {
		kind := completeness.KindOf(err)
		if errors.Is(err, keys.ErrBadDirectory) {
			kind = verdict.Tampered
		}
		v.proofs = append(v.proofs, proved{leaf: leaf, fault: &verdict.Fault{Kind: kind, Seq: leaf.Seq, What: fmt.Sprintf("proof %s: %v", name, err)}})
	}
	if err != nil {
		failed(one.leaf, err)
		return
	}
	for _, p := range file.Heads {
		at, err := p.Verify(by)
		if err != nil {
			failed(p.Leaf, err)
			continue
		}
		v.proofs = append(v.proofs, proved{leaf: p.Leaf, at: at})
		if at.Quorum {
			v.log.Heads = append(v.log.Heads, signed.Head{Log: at.Origin, Session: p.Leaf.Session, Seq: p.Leaf.Seq, Index: p.Index})
		}
	}
	for _, p := range file.Listed {
		at, err := p.Verify(by)
		var d *keys.Directory
		if err == nil && p.Root == v.signatures.root {
			d, err = p.Open(p.Root)
		}
		switch {
		case err != nil:
			failed(one.leaf, err)
		case d != nil && at.Quorum:
			v.log.Listed = append(v.log.Listed, signed.Listed{Log: at.Origin, Index: p.Index, Before: p.Before, Directory: d})
		}
	}
}

// chooseKeys chooses the version of the directory of keys for judging signatures: the newest one that was given or is in a
// proof.
func (v *verifier) chooseKeys(ctx context.Context, cell *cli.Cell) error {
	given, err := v.signatures.directories(ctx, cell)
	hidden := errors.Is(err, signers.ErrNone)
	if err != nil && !hidden || v.signatures.root == "" {
		return err
	}
	v.keys, v.keyFaults, v.keyWarnings = v.log.Newest(given)
	if hidden {
		v.keyFaults = append(v.keyFaults, verdict.Fault{Kind: verdict.Missing, What: fmt.Sprintf(
			"the deployment has no directory of keys that the root %s signed: it was removed, or another root signed it (--keys reads a directory from a file)", v.signatures.root)})
		return nil
	}
	if v.keys == nil && !slices.ContainsFunc(v.proofs, func(p proved) bool { return p.fault != nil }) {
		return cli.Usage("--file needs --keys to check signatures, since no proof has the directory of this root that witnesses saw: \"turnlog keys init\" keeps a file \"directory\"")
	}
	return nil
}

// add adds what the proof shows.
func (p proved) add(v *verdict.Verdict, cell string) {
	switch {
	case p.fault != nil:
		v.Add(*p.fault)
	case p.leaf.Session != v.Session:
		v.Add(verdict.Fault{Kind: verdict.Foreign, Seq: p.leaf.Seq, What: fmt.Sprintf("the proof is of session %s", p.leaf.Session)})
	case cell != "" && p.leaf.Cell != cell:
		v.Add(verdict.Fault{Kind: verdict.Foreign, Seq: p.leaf.Seq, What: fmt.Sprintf("the proof is of cell %s, this is %s", p.leaf.Cell, cell)})
	case slices.ContainsFunc(v.Faults, func(f verdict.Fault) bool { return f.Kind == verdict.Restored && f.Seq == p.leaf.Seq }): // lost
	case p.at.Quorum && p.leaf.Seq <= v.Head.Seq:
		proof := verdict.Proof{Level: verdict.Witnessed, Through: verdict.Point{Seq: v.Covered(p.leaf.Seq, p.leaf.Hash)}}
		for _, c := range p.at.Cosignatures {
			proof.By = append(proof.By, c.Witness)
			proof.Through.At = max(proof.Through.At, content.TimeOf(c.At))
		}
		v.Prove(proof)
	case !p.at.Quorum:
		v.Doubt(fmt.Sprintf("witnesses: those who cosigned the proof of entry %d do not suffice for the policy, so the operator of the log %s may have written it again", p.leaf.Seq, p.at.Origin))
	}
}

// disagree returns faults of the log that only several proofs show: two trees of one size. If a witness cosigned a tree
// after a larger one, that is only a warning, since its clock may have been set back.
func disagree(all []proved) (out, warnings []verdict.Fault) {
	for i, a := range all {
		for _, b := range all[i+1:] {
			small, large := a, b
			if small.at.N > large.at.N {
				small, large = b, a
			}
			switch {
			case a.fault != nil || b.fault != nil || small.at.Origin != large.at.Origin:
			case small.at.N == large.at.N && small.at.Hash != large.at.Hash:
				out = append(out, verdict.Fault{Kind: verdict.Replaced, Seq: a.leaf.Seq, What: fmt.Sprintf("the log published two different trees of size %d", a.at.N)})
			case small.at.N < large.at.N && cosignedAfter(small.at, large.at):
				warnings = append(warnings, verdict.Fault{
					Kind: verdict.RolledBack, Seq: small.leaf.Seq,
					What: fmt.Sprintf("the log had %d leaves, but later, by its clock, a witness cosigned %d: run \"observer log audit\" with both proofs", large.at.N, small.at.N),
				})
			}
		}
	}
	return out, warnings
}

// cosignedAfter reports whether a witness of both cosigned a after b.
func cosignedAfter(a, b headlog.Witnessed) bool {
	for _, x := range a.Cosignatures {
		for _, y := range b.Cosignatures {
			if x.Witness == y.Witness && x.At.After(y.At) {
				return true
			}
		}
	}
	return false
}
