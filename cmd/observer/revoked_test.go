package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// ledger is a deployment whose journals are signed, with the directory of keys in its log.
type ledger struct {
	*logged

	root, node, other *keys.Signer
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{logged: newLogged(t)}
	var err error
	if l.root, err = keys.NewRoot(); err == nil {
		l.node, err = keys.New()
	}
	if err == nil {
		l.other, err = keys.New()
	}
	if err != nil {
		t.Fatal(err)
	}
	l.cell = l.cell.Signing(l.node)
	return l
}

// version returns a version of the directory with the node's key, which is revoked unless r is nil.
func (l *ledger) version(n uint64, r *keys.Revocation) *keys.Directory {
	return &keys.Directory{Cell: "turnlog", Version: n, At: content.Time(n) * 1e9, Keys: []keys.Key{
		{Public: l.node.Public(), Roles: []keys.Role{keys.Driver}, Name: "node-1", From: 1e9, Revoked: r},
	}}
}

// write returns a file with a directory.
func (l *ledger) write(name string, d *keys.Directory) string {
	l.t.Helper()
	return l.file(name, must(d.Sign(l.root)))
}

// publish stores a version of the directory in the deployment.
func (l *ledger) publish(d *keys.Directory) {
	l.t.Helper()
	if err := signers.Publish(l.t.Context(), l.deployment.cell, d.Version, must(d.Sign(l.root))); err != nil {
		l.t.Fatal(err)
	}
}

// list publishes and logs a version of the directory, as a notary does.
func (l *ledger) list(d *keys.Directory) {
	l.t.Helper()
	l.publish(d)
	before := uint64(0)
	if n := len(l.state.Listed); n > 0 {
		before = l.state.Listed[n-1].Version
	}
	leaf := headlog.ListingOf(d, l.root.Public(), before)
	next := must(l.state.Append([][]byte{leaf.Text()}))
	next.Listed = append(next.Listed, headlog.ListedAt{Version: d.Version, Index: l.state.Tree.Size})
	l.show(next, l.signer, l.witnesses[0], l.witnesses[1])
}

// TestRevocationsAreJudgedByTheirPlaceInTheLog verifies with directories that an operator backdated, withheld, or
// replaced with an older version, and also without a server. In each, s-42 is leaf 1 of the log, after version 1 of
// the directory.
func TestRevocationsAreJudgedByTheirPlaceInTheLog(t *testing.T) {
	t.Parallel()
	long := content.Time(2e9) // ago
	stolen := func(size int64) *keys.Revocation {
		r := &keys.Revocation{At: long, Size: size, Stolen: true}
		if size > 0 {
			r.Log = "example.com/log"
		}
		return r
	}
	for _, row := range []struct {
		name  string
		after func(l *ledger)                      // what happens after s-42 was logged
		keys  func(l *ledger) *keys.Directory      // that is given to the verifier; nil: none
		proof func(l *ledger, proof string) string // changes the proof
		code  int
		says  string // on both outputs
	}{
		{"as it was", nil, nil, nil, 0, "not proved: keys: that version 1 of the directory of keys is the newest one"},
		{"with the directory", nil, func(l *ledger) *keys.Directory { return l.version(1, nil) }, nil, 0, "level    witnessed, through entry 7"},
		{"a retirement that is dated back", func(l *ledger) { l.list(l.version(2, &keys.Revocation{At: long})) }, nil, nil, 0, "only a warning: entry 7, forged: the directory of keys says that the key of node-1 was retired"},
		{"a theft after it", func(l *ledger) { l.list(l.version(2, stolen(2))) }, nil, nil, 0, "level    witnessed, through entry 7"},
		{"a theft before it", func(l *ledger) { l.list(l.version(2, stolen(1))) }, nil, nil, 1, "entry 7, forged: signature: key "},
		{"a theft that is dated back", func(l *ledger) { l.list(l.version(2, stolen(1))) }, nil, nil, 1, "the log has the entry as leaf 1, before that version of the directory, leaf 2"},
		{"a theft at a size of another log", func(l *ledger) {
			l.list(l.version(2, &keys.Revocation{At: long, Size: 2, Log: "example.com/other", Stolen: true}))
		}, nil, nil, 1, "entry 7, forged: signature: key "},
		{"a theft without a size", func(l *ledger) { l.list(l.version(2, stolen(0))) }, nil, nil, 1, "entry 7, forged: signature: key "},
		{"a theft at a size that the log did not have", func(l *ledger) { l.list(l.version(2, stolen(3))) }, nil, nil, 1, "forged: version 2 of the directory of keys revokes the key of node-1 at size 3 of the log, which had 2 leaves then"},
		{"an older directory", func(l *ledger) { l.list(l.version(2, stolen(1))) }, func(l *ledger) *keys.Directory { return l.version(1, nil) }, nil, 1, "only a warning: rolled-back: the directory of keys that was given is version 1, and the proof has version 2"},
		{"another directory", nil, func(l *ledger) *keys.Directory { return l.version(1, &keys.Revocation{At: long * 1e12}) }, nil, 1, "replaced: two directories of keys were shown as version 1"},
		{"a directory that is not logged", nil, func(l *ledger) *keys.Directory { return l.version(2, nil) }, nil, 0, "not proved: keys: that others see the same version 2"},
		{"a theft that is taken back", func(l *ledger) { l.list(l.version(2, stolen(2))) }, func(l *ledger) *keys.Directory { return l.version(3, nil) }, nil, 1, "rolled-back: directory of keys was rolled back: version 3 changes key"},
		{"a version is hidden in the proof", func(l *ledger) { l.list(l.version(2, stolen(1))) }, nil, func(l *ledger, proof string) string {
			file := must(headlog.ParseFile([]byte(proof)))
			file.Listed = file.Listed[:1]
			return string(file.Text())
		}, 0, "not proved: keys: that version 1 of the directory of keys is the newest one"},
		{"a directory in the proof is changed", nil, nil, func(_ *ledger, proof string) string {
			return strings.Replace(proof, " driver node-1 ", " driver node-2 ", 1)
		}, 1, "entry 7, tampered"},
		{"a directory in the proof is another one", func(l *ledger) { l.list(l.version(2, nil)) }, nil, func(_ *ledger, proof string) string {
			file := must(headlog.ParseFile([]byte(proof)))
			file.Listed[1].Signed = file.Listed[0].Signed
			return string(file.Text())
		}, 1, "entry 7, tampered"},
		{"a version at another index", nil, nil, func(_ *ledger, proof string) string {
			file := must(headlog.ParseFile([]byte(proof)))
			file.Listed[0].Index = 1
			return string(file.Text())
		}, 1, "entry 7, tampered"},
		{"a head after a version", nil, nil, func(_ *ledger, proof string) string {
			return proof + string(must(headlog.ParseFile([]byte(proof))).Heads[0].Text())
		}, 1, "unreadable"},
		{"a version without its directory", nil, nil, func(_ *ledger, proof string) string {
			return strings.Split(proof, keys.Begins)[0]
		}, 1, "unreadable"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			l.list(l.version(1, nil))
			l.session("s-42").turn()
			l.logged.log("s-42")
			if row.after != nil {
				row.after(l)
			}
			proof, journal := l.proof("s-42", "proof"), l.export("s-42")
			if row.proof != nil {
				if err := os.WriteFile(proof, []byte(row.proof(l, read2(t, proof))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"verify", "--file", journal, "--proof", proof, "--policy", l.policy, "--keys-root", l.root.Public(), "--require", "witnessed"}
			if row.keys != nil {
				args = append(args, "--keys", l.write("given", row.keys(l)))
			}
			code, out, errs := observe(t.Context(), nil, args...)
			if code != row.code || !strings.Contains(out+errs, row.says) {
				t.Errorf("verify = %d %q, want %d …%s…\n%s", code, errs, row.code, row.says, out)
			}
		})
	}
}

// TestAHeadBeforeTheTheftIsInTheProof verifies a session that a thief continued with the stolen key.
func TestAHeadBeforeTheTheftIsInTheProof(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.list(l.version(1, nil))
	s := l.session("s-42").turn()
	l.logged.log("s-42")
	l.session("s-43").turn()
	l.logged.log("s-43")
	s.do(commands.SubmitInput{Items: []content.Item{content.UserText("And now?")}})
	l.logged.log("s-42")
	l.list(l.version(2, &keys.Revocation{At: 2e9, Size: 3, Log: "example.com/log", Stolen: true}))
	for s, want := range map[string]string{"s-43": "heads 1, versions [1 2]", "s-42": "heads 2, versions [1 2]"} {
		file := must(headlog.ParseFile([]byte(read2(t, l.proof(s, s)))))
		var versions []uint64
		for _, v := range file.Listed {
			versions = append(versions, v.Version)
		}
		got := fmt.Sprintf("heads %d, versions %v", len(file.Heads), versions)
		if got != want {
			t.Errorf("%s has %s, want %s", s, got, want)
		}
	}
	verify := func(s string) (int, string, string) {
		return observe(t.Context(), nil, "verify", "--file", l.export(s), "--proof", l.dir+"/"+s, "--policy", l.policy, "--keys-root", l.root.Public(), "--require", "witnessed")
	}
	if code, out, errs := verify("s-43"); code != 0 {
		t.Errorf("verify = %d %q\n%s", code, errs, out)
	}
	if code, out, errs := verify("s-42"); code != 1 || !strings.Contains(errs, "forged: signature: key ") || !strings.Contains(errs, "stolen") && !strings.Contains(errs, "revoked before") {
		t.Errorf("verify = %d %q\n%s", code, errs, out)
	}
}

// TestAnAuditOfTheLogComparesTheDirectory shows an auditor of the log a directory.
func TestAnAuditOfTheLogComparesTheDirectory(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.list(l.version(1, nil))
	l.session("s-42").turn()
	l.logged.log("s-42")
	l.list(l.version(2, nil))
	audit := func(more ...string) (int, string, string) {
		return l.observe(append([]string{"log", "audit", "--policy", l.policy}, more...)...)
	}
	if code, out, errs := audit("--keys-root", l.root.Public(), "--keys", l.write("new", l.version(2, nil))); code != 0 || !strings.Contains(out, "keys     version 2 of the directory is logged") {
		t.Errorf("audit = %d %q\n%s", code, errs, out)
	}
	if code, _, errs := audit("--keys-root", l.root.Public(), "--keys", l.write("old", l.version(1, nil))); code != 1 || !strings.Contains(errs, "log: rolled-back: version 1 of the directory of keys: it was shown to you, but the log has version 2") {
		t.Errorf("audit = %d %q", code, errs)
	}
	if code, _, _ := audit("--keys", l.dir+"/old"); code != 2 {
		t.Errorf("audit --keys without --keys-root = %d", code)
	}
}
