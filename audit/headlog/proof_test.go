package headlog

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/formats/log"
	cosignatures "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/formats/witness"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// signer is a key made by package note.
type signer struct {
	note.Signer

	secret, public string
}

func newSigner(tb testing.TB, name string) signer {
	tb.Helper()
	secret, public, err := note.GenerateKey(nil, name)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := note.NewSigner(secret)
	if err != nil {
		tb.Fatal(err)
	}
	return signer{s, secret, public}
}

// newCosigner returns a witness with this package's cosignatures.
func newCosigner(tb testing.TB, name string) *Cosigner {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	key, err := note.NewEd25519VerifierKey(name, public)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := NewCosigner(key, func(text []byte) []byte { return ed25519.Sign(private, text) }, time.Now)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func policy(tb testing.TB, lines ...string) *Policy {
	tb.Helper()
	p, err := ParsePolicy([]byte(strings.Join(lines, "\n") + "\n"))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// cosigned adds signatures to a note.
func cosigned(tb testing.TB, text string, by ...note.Signer) []byte {
	tb.Helper()
	signed, err := note.Sign(&note.Note{Text: text}, by...)
	if err != nil {
		tb.Fatal(err)
	}
	return signed
}

// prove returns the proof of a leaf of a log, in a checkpoint with signatures.
func prove(tb testing.TB, g *grown, index int, by ...note.Signer) Proof {
	tb.Helper()
	c := g.Checkpoint()
	r, err := g.Reader(c.Tree, g.tile)
	if err != nil {
		tb.Fatal(err)
	}
	p := Proof{Leaf: leafOf(index), Index: int64(index), Checkpoint: cosigned(tb, c.Text(), by...)}
	if p.Hashes, err = r.Prove(p.Index); err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestAProofVerifiesWithoutAServer(t *testing.T) {
	t.Parallel()
	key, w1, w2 := newSigner(t, "example.com/log"), newCosigner(t, "w1.example"), newCosigner(t, "w2.example")
	p := prove(t, grow(t, 300), 42, key, w1, w2)
	by := policy(t, "log "+key.public, "witness one "+w1.Key(), "witness two "+w2.Key(), "group both all one two", "quorum both")
	back, err := headOf(p.Text())
	if err != nil {
		t.Fatal(err)
	}
	at, err := back.Verify(by)
	if err != nil || !at.Quorum || len(at.Cosignatures) != 2 || at.N != 300 || back.Leaf != leafOf(42) {
		t.Errorf("%+v, %v", at, err)
	}
	if age := time.Since(at.Cosignatures[1].At); at.Cosignatures[1].Witness != "w2.example" || age < -time.Second || age > time.Minute {
		t.Errorf("%+v", at.Cosignatures)
	}
	if len(p.Text()) > 1_200 {
		t.Errorf("the proof has %d bytes", len(p.Text()))
	}
}

// TestOurProofsVerifyElsewhere reads our proof, checkpoint and cosignature with other implementations.
func TestOurProofsVerifyElsewhere(t *testing.T) {
	t.Parallel()
	key, w := newSigner(t, "example.com/log"), newCosigner(t, "w.example")
	p := prove(t, grow(t, 300), 42, key, w)
	var is proof.TLogProof
	if err := is.Unmarshal(p.Text()); err != nil {
		t.Fatal(err)
	}
	logKey, err := note.NewVerifier(key.public)
	if err != nil {
		t.Fatal(err)
	}
	witnessKey, err := cosignatures.NewVerifierForCosignatureV1(w.Key())
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, _, n, err := log.ParseCheckpoint(is.Checkpoint, "example.com/log", logKey, witnessKey)
	if err != nil || len(n.Sigs) != 2 || checkpoint.Size != 300 {
		t.Fatalf("%+v, %v", checkpoint, err)
	}
	path := make(tlog.RecordProof, len(is.Hashes))
	for i, h := range is.Hashes {
		path[i] = h
	}
	err = tlog.CheckRecord(path, int64(checkpoint.Size), tlog.Hash(checkpoint.Hash), int64(is.Index), tlog.RecordHash(is.ExtraData)) //nolint:gosec // small
	if err != nil {
		t.Error(err)
	}
	group, err := witness.ParsePolicy([]byte("log " + key.public + "\nwitness w " + w.Key() + " https://w.example/\nquorum w\n"))
	if err != nil || !group.Satisfied(is.Checkpoint) {
		t.Errorf("the policy of transparency-dev is not met: %v", err)
	}
}

// TestProofsOfOthersVerifyHere verifies notes, cosignatures and proofs made by other implementations: with
// Ed25519 and with ML-DSA-44.
func TestProofsOfOthersVerifyHere(t *testing.T) {
	t.Parallel()
	key, other := newSigner(t, "example.com/log"), newSigner(t, "w.example")
	ed, err := cosignatures.NewSignerForCosignatureV1(other.secret)
	if err != nil {
		t.Fatal(err)
	}
	edKey, err := cosignatures.VKeyToCosignatureV1(other.public)
	if err != nil {
		t.Fatal(err)
	}
	secret, pqKey, err := cosignatures.GenerateMLDSAKey("pq.example")
	if err != nil {
		t.Fatal(err)
	}
	pq, err := cosignatures.NewMLDSASigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	g := grow(t, 300)
	mine := prove(t, g, 5, key)
	is := proof.TLogProof{Index: 5, ExtraData: leafOf(5).Text()}
	is.Checkpoint = cosigned(t, string(log.Checkpoint{Origin: "example.com/log", Size: 300, Hash: g.Root[:]}.Marshal()), key, ed, pq)
	for _, h := range mine.Hashes {
		is.Hashes = append(is.Hashes, h)
	}
	p, err := headOf(is.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	at, err := p.Verify(policy(t, "log "+key.public, "witness ed "+edKey, "witness pq "+pqKey, "group all all ed pq", "quorum all"))
	if err != nil || !at.Quorum || len(at.Cosignatures) != 2 {
		t.Errorf("%+v, %v", at, err)
	}
}

func TestAProofThatDiffersIsRefused(t *testing.T) {
	t.Parallel()
	g := grow(t, 300)
	key, imposter := newSigner(t, "example.com/log"), newSigner(t, "example.com/log")
	w, stranger := newCosigner(t, "w.example"), newCosigner(t, "w.example")
	by := policy(t, "log "+key.public, "witness w "+w.Key(), "quorum w")
	good := prove(t, g, 42, key, w)
	text := string(good.Text())
	for _, row := range []struct {
		name string
		p    func(p *Proof)
		want error
	}{
		{"another session", func(p *Proof) { p.Leaf.Session = "s-43" }, ErrNotIncluded},
		{"another entry", func(p *Proof) { p.Leaf.Seq++ }, ErrNotIncluded},
		{"another hash", func(p *Proof) { p.Leaf.Hash[0]++ }, ErrNotIncluded},
		{"another cell", func(p *Proof) { p.Leaf.Cell = "other" }, ErrNotIncluded},
		{"another index", func(p *Proof) { p.Index++ }, ErrNotIncluded},
		{"an index beyond the end", func(p *Proof) { p.Index = 300 }, ErrNotIncluded},
		{"a hash of the path", func(p *Proof) { p.Hashes[3][0]++ }, ErrNotIncluded},
		{"a hash less", func(p *Proof) { p.Hashes = p.Hashes[1:] }, ErrNotIncluded},
		{"a hash more", func(p *Proof) { p.Hashes = append(p.Hashes, p.Hashes[0]) }, ErrNotIncluded},
		{"a checkpoint of another tree", func(p *Proof) { p.Checkpoint = prove(t, grow(t, 299), 42, key, w).Checkpoint }, ErrNotIncluded},
		{"a root that was not signed", func(p *Proof) {
			p.Checkpoint = bytes.Replace(p.Checkpoint, []byte("\n300\n"), []byte("\n301\n"), 1)
		}, ErrForged},
		{"a log of the same name", func(p *Proof) { p.Checkpoint = cosigned(t, g.Checkpoint().Text(), imposter, w) }, ErrUnknownLog},
		{"a log that did not sign", func(p *Proof) { p.Checkpoint = cosigned(t, g.Checkpoint().Text(), w) }, ErrUnknownLog},
		{"a log of another name", func(p *Proof) {
			c := g.Checkpoint()
			c.Origin = "example.org/log"
			p.Checkpoint = cosigned(t, c.Text(), key, w)
		}, ErrUnknownLog},
		{"a checkpoint that is no note", func(p *Proof) { p.Checkpoint = []byte("example.com/log\n300\n") }, ErrBadCheckpoint},
		{"a checkpoint with a leading zero", func(p *Proof) {
			p.Checkpoint = cosigned(t, strings.Replace(g.Checkpoint().Text(), "\n300\n", "\n0300\n", 1), key, w)
		}, ErrBadCheckpoint},
		{"a checkpoint without a root", func(p *Proof) { p.Checkpoint = cosigned(t, "example.com/log\n300\n\n", key, w) }, ErrBadCheckpoint},
		{"a checkpoint that is too large", func(p *Proof) {
			c := g.Checkpoint()
			c.N = maxSize
			p.Checkpoint = cosigned(t, c.Text(), key, w)
		}, ErrBadCheckpoint},
		{"a forged cosignature", func(p *Proof) { p.Checkpoint = graft(t, p.Checkpoint, w, stranger) }, ErrForged},
		{"a forged signature of the log", func(p *Proof) { p.Checkpoint = graft(t, p.Checkpoint, key, imposter) }, ErrForged},
	} {
		p, err := headOf([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		row.p(&p)
		if _, err := p.Verify(by); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
	}
	for name, bad := range map[string]string{
		"nothing": "", "another version": strings.Replace(text, "@v1", "@v2", 1), "no leaf": strings.Replace(text, "\nextra ", "\nextr ", 1),
		"an empty leaf": strings.Replace(text, strings.Split(text, "\n")[1], "extra ", 1), "cut off": text[:len(text)-1], "an index with a zero": strings.Replace(text, "index ", "index 0", 1),
		"carriage returns": strings.ReplaceAll(text, "\n", "\r\n"), "something after it": text + "\n", "something before it": "\n" + text,
		"a negative index": strings.Replace(text, "index 42", "index -42", 1), "a huge index": strings.Replace(text, "index 42", "index 18446744073709551615", 1),
	} {
		if p, err := headOf([]byte(bad)); err == nil {
			if _, err = p.Verify(by); err == nil {
				t.Errorf("%s: verified", name)
			}
		}
	}
}

// graft replaces the signature of a key with one by another key of the same name, under the first key's hash.
func graft(tb testing.TB, signed []byte, of, by note.Signer) []byte {
	tb.Helper()
	text, _, _ := strings.Cut(string(signed), "\n\n")
	text += "\n"
	sig, err := by.Sign([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	var out []byte
	for line := range bytes.Lines(signed) {
		if n, err := note.Open(append([]byte(text+"\n"), line...), nil); n == nil {
			none, unverified := errors.AsType[*note.UnverifiedNoteError](err)
			if unverified && none.Note.UnverifiedSigs[0].Hash == of.KeyHash() {
				line = fmt.Appendf(nil, "— %s %s\n", of.Name(), base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, of.KeyHash()), sig...)))
			}
		}
		out = append(out, line...)
	}
	if bytes.Equal(out, signed) {
		tb.Fatal("nothing was grafted")
	}
	return out
}

func TestAQuorumIsWhatThePolicySays(t *testing.T) {
	t.Parallel()
	key := newSigner(t, "example.com/log")
	var all [5]*Cosigner
	lines := []string{"# a comment", "\tlog " + key.public + " https://log.example/ ", ""}
	for i := range all {
		all[i] = newCosigner(t, fmt.Sprintf("w%d.example", i))
		lines = append(lines, fmt.Sprintf("witness w%d %s https://w%d.example/", i, all[i].Key(), i))
	}
	text := grow(t, 7).Checkpoint().Text()
	for _, row := range []struct {
		rules string
		by    []int
		want  bool
	}{
		{"quorum none", nil, false}, // it is not an error, but nothing is witnessed
		{"quorum none", []int{3}, true},
		{"quorum w1", []int{0, 2}, false},
		{"quorum w1", []int{1}, true},
		{"group g any w0 w1\nquorum g", []int{1}, true},
		{"group g any w0 w1\nquorum g", []int{2, 3}, false},
		{"group g all w0 w1\nquorum g", []int{1}, false},
		{"group g all w0 w1\nquorum g", []int{0, 1}, true},
		{"group g 2 w0 w1 w2\nquorum g", []int{0, 3, 4}, false},
		{"group g 2 w0 w1 w2\nquorum g", []int{0, 2}, true},
		{"group x 2 w0 w1 w2\ngroup y any w3 w4\ngroup xy all x y\nquorum xy", []int{0, 1, 2}, false},
		{"group x 2 w0 w1 w2\ngroup y any w3 w4\ngroup xy all x y\nquorum xy", []int{0, 2, 4}, true},
	} {
		by := []note.Signer{key}
		for _, i := range row.by {
			by = append(by, all[i])
		}
		signed := cosigned(t, text, by...)
		at, err := policy(t, append(lines, row.rules)...).Open(signed)
		if err != nil || at.Quorum != row.want || len(at.Cosignatures) != len(row.by) {
			t.Errorf("%s, signed by %v: %+v, %v", row.rules, row.by, at, err)
		}
		theirs, err := witness.ParsePolicy([]byte(strings.Join(append(lines, row.rules), "\n")))
		if err != nil || theirs.Satisfied(signed) != row.want && len(row.by) > 0 {
			t.Errorf("%s, signed by %v: transparency-dev disagrees: %v", row.rules, row.by, err)
		}
	}
}

func TestBadPoliciesAreRefused(t *testing.T) {
	t.Parallel()
	key, w := newSigner(t, "example.com/log"), newCosigner(t, "w.example")
	logLine, one := "log "+key.public+"\n", "witness one "+w.Key()+"\n"
	renamed := "witness two other.example" + strings.TrimPrefix(w.Key(), "w.example")
	renamed = strings.Replace(renamed, fmt.Sprintf("%08x", w.KeyHash()), fmt.Sprintf("%08x", renamedHash(t, w)), 1)
	for _, row := range []struct{ text, says string }{
		{"", "the line \"quorum NAME\" is missing"},
		{logLine + one, "the line \"quorum NAME\" is missing"},
		{one + "quorum one\nquorum one\n", "line 3: a second quorum"},
		{"quorum one\n" + one, `line 1: no line before it defines "one"`},
		{one + "witness one " + w.Key() + "\n", "is listed twice"},
		{one + renamed + "\n", "is listed twice"},
		{logLine + logLine, "is listed twice"},
		{"witness none " + w.Key() + "\n", `"none" is already used`},
		{one + "group one any one\n", `"one" is already used`},
		{one + "group g 2 one\n", "needs \"2\" of 1"},
		{one + "group g 0 one\n", "needs \"0\" of 1"},
		{one + "group g +1 one\n", "needs \"+1\" of 1"},
		{one + "group g all one one\n", "already in a group"},
		{one + "group g all one\ngroup h all one\n", "already in a group"},
		{one + "group g all\n", "unknown line"},
		{"group g any g\n", `no line before it defines "g"`},
		{"group g any none\n", `no line before it defines "none"`},
		{"log " + w.Key() + "\n", "key of a log"},
		{"witness one " + key.public + "\n", "not that of a cosignature key"},
		{"witness one x+00000000+AAAA\n", "key of a witness"},
		{"log\n", "unknown line"},
		{"hello\n", "unknown line"},
		{one + "quorum one\r\n", `the character '\r' is not allowed`},
		{one + "# a\x00b\nquorum one\n", `the character '\x00' is not allowed`},
	} {
		if _, err := ParsePolicy([]byte(row.text)); !errors.Is(err, ErrBadPolicy) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%q: %v, want …%s…", row.text, err, row.says)
		}
	}
	if _, err := ParsePolicy([]byte(one + "\n# ünï\n \t quorum\tone")); err != nil {
		t.Error(err)
	}
}

// renamedHash returns the hash of a witness's key under the name other.example.
func renamedHash(tb testing.TB, w *Cosigner) uint32 {
	tb.Helper()
	v, err := cosignatures.NewVerifierForCosignatureV1("other.example" + strings.TrimPrefix(w.Key(), "w.example"))
	if err != nil {
		tb.Fatal(err)
	}
	return v.KeyHash()
}

// TestANoteOfTheSpecificationVerifies has the example of C2SP's signed-note (https://c2sp.org/signed-note).
func TestANoteOfTheSpecificationVerifies(t *testing.T) {
	t.Parallel()
	v, err := ParseLogKey("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")
	if err != nil {
		t.Fatal(err)
	}
	const signed = "This is an example message.\n\n" +
		"— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
	if n, err := open([]byte(signed), v); err != nil || n.Text != "This is an example message.\n" {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := open([]byte(strings.Replace(signed, "example m", "exampl m", 1)), v); !errors.Is(err, ErrForged) {
		t.Error(err)
	}
	// The body of the example of tlog-checkpoint.
	const body = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
	for text, ok := range map[string]bool{
		body: true, body + "an extension\n": true, body + "\n": false, body + "a\n\nb\n": false, body[:len(body)-1]: false, "\n" + body: false,
		strings.Replace(body, "I=", "J=", 1): false, "x\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n": true,
		"x\n0\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n": false,
	} {
		c, err := ParseCheckpoint(text)
		if (err == nil) != ok || err == nil && c.Text() != text {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// headOf reads a file with one head.
func headOf(text []byte) (Proof, error) {
	f, err := ParseFile(text)
	if err == nil && (len(f.Heads) != 1 || len(f.Listed) > 0) {
		err = ErrBadProof
	}
	if err != nil {
		return Proof{}, err
	}
	return f.Heads[0], nil
}

func FuzzParseFile(f *testing.F) {
	key, w := newSigner(f, "example.com/log"), newCosigner(f, "w.example")
	good := prove(f, grow(f, 300), 42, key, w).Text()
	by := policy(f, "log "+key.public, "witness w "+w.Key(), "quorum w")
	f.Add(good)
	f.Add(slices.Concat(good, good))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := ParseFile(text)
		if err != nil {
			return
		}
		if !bytes.Equal(file.Text(), text) {
			t.Errorf("%q was read as %q", text, file.Text())
		}
		for _, p := range file.Heads {
			if at, err := p.Verify(by); err == nil && at.Quorum && !bytes.Equal(p.Leaf.Text(), leafOf(42).Text()) {
				t.Errorf("verified: %q", text)
			}
		}
		for _, p := range file.Listed {
			if at, err := p.Verify(by); err == nil && at.Quorum {
				t.Errorf("verified: %q", text)
			}
		}
	})
}

func FuzzParsePolicy(f *testing.F) {
	key, w := newSigner(f, "example.com/log"), newCosigner(f, "w.example")
	checkpoint := prove(f, grow(f, 300), 42, key).Checkpoint // no witness has signed it
	f.Add([]byte("log " + key.public + "\nwitness w " + w.Key() + "\ngroup g all w\nquorum g\n"))
	f.Add([]byte("log " + key.public + "\nquorum none\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		by, err := ParsePolicy(text)
		if err != nil {
			return
		}
		if at, err := by.Open(checkpoint); err == nil && at.Quorum {
			t.Errorf("a policy is met without a witness: %q", text)
		}
	})
}
