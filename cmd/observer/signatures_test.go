package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// signedDeployment is a deployment whose journals are signed, and the files that a verifier needs.
type signedDeployment struct {
	*deployment

	root string // the public key
	keys string // the file of the directory
	dir  *keys.Directory
}

func deploySigned(t *testing.T) *signedDeployment {
	t.Helper()
	d := &signedDeployment{deployment: deploy(t), keys: filepath.Join(t.TempDir(), "directory")}
	root, err := keys.NewRoot()
	if err != nil {
		t.Fatal(err)
	}
	node, err := keys.New()
	if err != nil {
		t.Fatal(err)
	}
	d.root, d.cell = root.Public(), d.cell.Signing(node)
	d.dir = &keys.Directory{Cell: "turnlog", Version: 1, At: 1e9, Keys: []keys.Key{{Public: node.Public(), Roles: []keys.Role{keys.Driver}, Name: "node-1", From: 1e9}}}
	signed, err := d.dir.Sign(root)
	if err == nil {
		err = os.WriteFile(d.keys, signed, 0o600)
	}
	if err == nil {
		err = signers.Publish(t.Context(), d.cell, 1, signed)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSignaturesAreVerified(t *testing.T) {
	t.Parallel()
	d := deploySigned(t)
	d.session("s-42").turn()
	file := d.export("s-42")
	for name, args := range map[string][]string{
		"from the deployment": {"verify", "s-42", "--keys-root", d.root, "--require", "signed"},
		"with a file of keys": {"verify", "s-42", "--keys-root", d.root, "--keys", d.keys, "--require", "signed"},
		"every signature":     {"verify", "s-42", "--keys-root", d.root, "--every-signature", "--require", "signed"},
		"an export":           {"verify", "--file", file, "--keys-root", d.root, "--keys", d.keys, "--require", "signed"},
	} {
		code, out, errs := d.observe(args...)
		if code != 0 || !strings.Contains(out, "\n   level    signed, through entry 7") || !strings.Contains(out, "\n   who      entries: 7, by node-1 (key ") {
			t.Errorf("%s: verify = %d %q\n%s", name, code, errs, out)
		}
	}
	code, out, _ := d.observe("verify", "s-42", "--keys-root", d.root, "-o", "json")
	if code != 0 || !strings.Contains(out, `"level": "signed"`) || !strings.Contains(out, `"signer": "node-1"`) {
		t.Errorf("verify -o json = %d %s", code, out)
	}
	if code, out, errs := d.observe("verify", "s-42", "--require", "signed"); code != 6 || !strings.Contains(out, "not proved: who: no keys were given, so no signature was checked") {
		t.Errorf("without keys: verify = %d %q\n%s", code, errs, out)
	}
}

// The root may be wrong, or the directory was removed.
func TestAJournalWhoseKeysTheDeploymentDoesNotShowGetsAVerdict(t *testing.T) {
	t.Parallel()
	d := deploySigned(t)
	d.session("s-42").turn()
	root, err := keys.NewRoot()
	if err != nil {
		t.Fatal(err)
	}
	want := "missing: the deployment has no directory of keys that the root " + root.Public() + " signed"
	code, out, errs := d.observe("verify", "s-42", "--keys-root", root.Public())
	if code != 1 || !strings.Contains(out, "\n   "+want) || !strings.Contains(out, "\n   level    none\n") || !strings.Contains(errs, want) {
		t.Errorf("verify = %d %q\n%s", code, errs, out)
	}
	code, out, _ = d.observe("verify", "--all", "--keys-root", root.Public(), "-o", "json")
	if code != 1 || !strings.Contains(out, `"kind": "missing"`) || !strings.Contains(out, "so no signature was checked") {
		t.Errorf("verify -o json = %d %s", code, out)
	}
	if code, out, errs := d.observe("report", "s-42", "--keys-root", root.Public()); code != 1 || !strings.Contains(out, "Do not rely on what this report says") {
		t.Errorf("report = %d %q\n%s", code, errs, out)
	}
	if code, out, errs := d.observe("explain", "s-42", "c1", "--keys-root", root.Public()); code != 1 || out != "" || !strings.Contains(errs, "the cell has no directory of keys") {
		t.Errorf("explain = %d %q\n%s", code, errs, out)
	}
}

func TestAnUnsignedJournalIsSaidToBeUnsigned(t *testing.T) {
	t.Parallel()
	d := deploySigned(t)
	d.cell = d.cell.Signing(nil)
	d.session("s-42").turn()
	code, out, errs := d.observe("verify", "s-42", "--keys-root", d.root)
	if code != 0 || !strings.Contains(out, "who      entries: 7, unsigned\n") || !strings.Contains(out, "not proved: who: it is unsigned") || !strings.Contains(out, "level    chain") {
		t.Errorf("verify = %d %q\n%s", code, errs, out)
	}
	if code, _, errs := d.observe("verify", "s-42", "--keys-root", d.root, "--require", "signed"); code != 6 || !strings.Contains(errs, "the level is chain, not signed") {
		t.Errorf("verify --require signed = %d %q", code, errs)
	}
}

// TestContradictionsOfTheRootAreFaults has the root sign a version that contradicts an earlier one.
func TestContradictionsOfTheRootAreFaults(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(d *keys.Directory){
		"a key of another owner": func(d *keys.Directory) { d.Keys[0].Name = "node-2" },
		"a key that is gone":     func(d *keys.Directory) { d.Keys[0].Public = must(keys.New()).Public() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			l.list(l.version(1, nil))
			l.session("s-42").turn()
			d := l.version(2, nil)
			change(d)
			if err := signers.Publish(t.Context(), l.deployment.cell, d.Version, must(d.Sign(l.root))); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"verify", "s-42"}, {"verify", "--all"}} {
				code, out, errs := l.observe(append(args, "--keys-root", l.root.Public())...)
				if code != 1 || !strings.Contains(out, "s-42") || !strings.Contains(errs, "rolled-back: directory of keys was rolled back: version 2 changes key ") {
					t.Errorf("%v = %d %q\n%s", args, code, errs, out)
				}
			}
			code, out, errs := l.observe("verify", "s-42", "--keys-root", l.root.Public(), "-o", "json")
			if code != 1 || !strings.Contains(out, `"kind": "rolled-back"`) {
				t.Errorf("verify -o json = %d %q\n%s", code, errs, out)
			}
		})
	}
}

func TestAFalseSignatureInAnExportIsAFault(t *testing.T) {
	t.Parallel()
	d := deploySigned(t)
	d.session("s-42").turn()
	raw, err := os.ReadFile(d.export("s-42"))
	if err != nil {
		t.Fatal(err)
	}
	signature := regexp.MustCompile(`"signature":"[^"]*"`)
	lines := strings.SplitAfter(string(raw), "\n")
	for name, tt := range map[string]struct {
		line   int
		with   string
		stderr string
	}{
		"another entry's": {7, signature.FindString(lines[6]), "entry 7, forged: signature: key "},
		"none":            {7, `"signature":""`, "entry 7, "},
		"stripped":        {3, `"x":""`, "entry 3, "},
		"no base64":       {7, `"signature":"` + d.cell.Key().ID() + `.%"`, "bad signature"},
		"no key":          {7, `"signature":"abc"`, "bad signature"},
	} {
		changed := append([]string{}, lines...)
		changed[tt.line] = signature.ReplaceAllString(changed[tt.line], tt.with)
		file := filepath.Join(t.TempDir(), "changed.jsonl")
		if err := os.WriteFile(file, []byte(strings.Join(changed, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, errs := d.observe("verify", "--file", file, "--keys-root", d.root, "--keys", d.keys)
		if code != 1 || !strings.Contains(errs, tt.stderr) {
			t.Errorf("%s: verify = %d %q", name, code, errs)
		}
	}
}

func TestUsageOfKeys(t *testing.T) {
	t.Parallel()
	d := deploySigned(t)
	other, err := keys.NewRoot()
	if err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"need --keys-root":          {"verify", "s-42", "--keys", d.keys},
		"need --keys-root ":         {"verify", "s-42", "--every-signature"},
		"--file needs --keys":       {"verify", "--file", d.keys, "--keys-root", d.root},
		"not a public key":          {"verify", "s-42", "--keys-root", content.Clip(d.root, 20)},
		"did not sign it":           {"verify", "s-42", "--keys-root", other.Public(), "--keys", d.keys},
		"no such file":              {"verify", "s-42", "--keys-root", d.root, "--keys", "none"},
		"invalid directory of keys": {"verify", "s-42", "--keys-root", d.root, "--keys", "verify.go"},
	} {
		if code, _, errs := d.observe(args...); code != 2 || !strings.Contains(errs, strings.TrimSpace(want)) {
			t.Errorf("%v = %d %q, want %q", args[1:], code, errs, want)
		}
	}
}
