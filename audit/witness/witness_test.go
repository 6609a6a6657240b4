package witness

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cosignatures "github.com/transparency-dev/formats/note"
	"go.uber.org/zap/zaptest"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
)

const origin = "example.com/log"

// fixture is a witness of a log, and the log.
type fixture struct {
	*Witness

	t      testing.TB
	log    note.Signer
	by     *headlog.Cosigner
	states []headlog.State // by size
	srv    *httptest.Server
}

func newFixture(t testing.TB, size int) *fixture {
	t.Helper()
	f := &fixture{t: t, by: newCosigner(t, "w.example")}
	var known note.Verifier
	f.log, known = newLog(t, origin)
	f.states = grow(t, size, "s")
	var err error
	if f.Witness, err = Open(t.TempDir(), f.by, []note.Verifier{known}); err != nil {
		t.Fatal(err)
	}
	f.srv = httptest.NewServer(f.Handler(zaptest.NewLogger(t)))
	t.Cleanup(func() {
		f.srv.Close()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func newLog(t testing.TB, name string) (note.Signer, note.Verifier) {
	t.Helper()
	secret, public, err := note.GenerateKey(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

func newCosigner(t testing.TB, name string) *headlog.Cosigner {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewEd25519VerifierKey(name, public)
	if err != nil {
		t.Fatal(err)
	}
	c, err := headlog.NewCosigner(key, func(text []byte) []byte { return ed25519.Sign(private, text) }, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grow returns the states of a log with fewer than 256 leaves.
func grow(t testing.TB, size int, leaf string) []headlog.State {
	t.Helper()
	out := []headlog.State{headlog.NewState(origin)}
	for i := range size {
		next, err := out[i].Append([][]byte{fmt.Appendf(nil, "%s %d", leaf, i)})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, next)
	}
	return out
}

// signed returns the checkpoint of a state.
func (f *fixture) signed(s headlog.State) []byte {
	f.t.Helper()
	out, err := s.Checkpoint().Sign(f.log)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// proof returns the proof that one size of the log continues another.
func (f *fixture) proof(size, old int) tlog.TreeProof {
	f.t.Helper()
	s := f.states[size]
	r, err := s.Reader(s.Checkpoint().Tree, func(path string) ([]byte, error) { return nil, errors.New("no " + path) })
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := r.ProveConsistency(int64(old))
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// post sends a request and returns the answer.
func (f *fixture) post(body []byte) (code int, kind, answer string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.srv.URL+addPath, bytes.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(text)
}

func TestAWitnessAnswersAsTheProtocolSays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 20)
	other, _ := newLog(t, "example.org/other")
	imposter, _ := newLog(t, origin)
	fork := grow(t, 20, "forged")
	empty := headlog.NewState(origin)
	wrong := empty
	wrong.Root[0]++
	sign := func(s headlog.State, by note.Signer) []byte {
		out, err := note.Sign(&note.Note{Text: s.Checkpoint().Text()}, by)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	foreign := f.states[7]
	foreign.Origin = "example.org/other"
	many := make(tlog.TreeProof, maxProof+1)
	for _, row := range []struct {
		name string
		body []byte
		code int
		says string
	}{
		{"an unknown log", request(0, nil, sign(foreign, other)), 404, "unknown log"},
		{"an unknown key", request(0, nil, sign(f.states[7], imposter)), 403, "no valid signature"},
		{"a forged signature", request(0, nil, bytes.Replace(f.signed(f.states[7]), []byte("\n7\n"), []byte("\n8\n"), 1)), 403, "forged"},
		{"an empty tree with a root", request(0, nil, sign(wrong, f.log)), 422, "not that of an empty tree"},
		{"the empty tree with a proof", request(0, f.proof(9, 7), f.signed(f.states[7])), 422, "without a proof"},
		{"an empty tree", request(0, nil, f.signed(empty)), 200, "— w.example "},
		{"old before the first", request(3, nil, f.signed(f.states[7])), 409, "0\n"},
		{"the first", request(0, nil, f.signed(f.states[7])), 200, "— w.example "},
		{"the same again", request(7, nil, f.signed(f.states[7])), 200, "— w.example "},
		{"the same with a proof", request(7, f.proof(9, 7), f.signed(f.states[7])), 422, "does not extend"},
		{"another root of the same size", request(7, nil, f.signed(fork[7])), 422, "does not extend"},
		{"a wrong old size", request(5, f.proof(12, 5), f.signed(f.states[12])), 409, "7\n"},
		{"old size 0", request(0, nil, f.signed(f.states[12])), 409, "7\n"},
		{"an old size beyond the checkpoint's", request(7, nil, f.signed(f.states[5])), 400, "larger"},
		{"no proof", request(7, nil, f.signed(f.states[12])), 422, "does not extend"},
		{"a proof from another size", request(7, f.proof(12, 6), f.signed(f.states[12])), 422, "does not extend"},
		{"a rewritten log", request(7, f.proof(12, 7), f.signed(fork[12])), 422, "does not extend"},
		{"the next", request(7, f.proof(12, 7), f.signed(f.states[12])), 200, "— w.example "},
		{"a log that was rolled back", request(7, f.proof(9, 7), f.signed(f.states[9])), 409, "12\n"},
		{"too many hashes", request(12, many, f.signed(f.states[13])), 400, "at most 63"},
		{"no old size", f.signed(f.states[13]), 400, "old SIZE"},
		{"a negative old size", bytes.Replace(request(12, nil, f.signed(f.states[13])), []byte("old "), []byte("old -"), 1), 400, "old SIZE"},
		{"a leading zero", bytes.Replace(request(12, nil, f.signed(f.states[13])), []byte("old "), []byte("old 0"), 1), 400, "old SIZE"},
		{"a hash that is too short", []byte("old 12\nAAAA\n\n" + string(f.signed(f.states[13]))), 400, "base64"},
		{"no checkpoint", []byte("old 12\n\n"), 400, "bad checkpoint"},
		{"nothing", nil, 400, "old SIZE"},
		{"too much", bytes.Repeat([]byte("x"), maxBody+1), 400, "too large"},
		// The example of tlog-witness, whose log is unknown here.
		{"the example", []byte(`old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=
`), 404, "unknown log"},
	} {
		code, kind, answer := f.post(row.body)
		if code != row.code || !strings.Contains(answer, row.says) || (code == http.StatusConflict) != (kind == sizeType) {
			t.Errorf("%s: %d (%s) %q, want %d …%s…", row.name, code, kind, answer, row.code, row.says)
		}
	}
}

func TestACosignatureVerifiesElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	signed := f.signed(f.states[3])
	_, _, line := f.post(request(0, nil, signed))
	v, err := cosignatures.NewVerifierForCosignatureV1(f.by.Key())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(append(signed, line...), note.VerifierList(v))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := cosignatures.CoSigV1Timestamp(n.Sigs[0]); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("%v, %v", at, err)
	}
}

func TestAWitnessRemembersAfterARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 9)
	if _, err := f.Add(0, nil, f.signed(f.states[5])); err != nil {
		t.Fatal(err)
	}
	known := f.logs[origin]
	if _, err := Open(f.dir, f.by, []note.Verifier{known}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second witness: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(f.dir, f.by, []note.Verifier{known})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Add(0, nil, f.signed(grow(t, 9, "forged")[9])); !strings.Contains(fmt.Sprint(err), "size 5") {
		t.Errorf("after a restart: %v", err)
	}
	if _, err := again.Add(5, f.proof(9, 5), f.signed(f.states[9])); err != nil {
		t.Error(err)
	}
	file := again.file(origin)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"a smaller size":     bytes.Replace(good, []byte("\n9\n"), []byte("\n8\n"), 1),
		"not cosigned":       f.signed(f.states[8]),
		"cut off":            good[:len(good)-10],
		"nothing":            {},
		"one of another log": bytes.Replace(good, []byte(origin), []byte("example.net/log"), 1),
	} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Add(8, f.proof(9, 8), f.signed(f.states[9])); !errors.Is(err, ErrBadState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f.dir, f.by, []note.Verifier{known}); !errors.Is(err, ErrBadState) {
		t.Errorf("a witness with a bad file: %v", err)
	}
	if _, err := Open(t.TempDir(), f.by, []note.Verifier{known, known}); err == nil {
		t.Error("two keys of one log")
	}
}

// TestNothingIsCosignedThatIsNotStored has a directory in which no file can be created.
func TestNothingIsCosignedThatIsNotStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 9)
	if _, err := f.Add(0, nil, f.signed(f.states[5])); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.file(origin)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.file(origin), 0o700); err != nil { // root may write anywhere, but not replace a directory
		t.Fatal(err)
	}
	if code, _, answer := f.post(request(0, nil, f.signed(f.states[9]))); code != http.StatusInternalServerError || strings.Contains(answer, f.dir) {
		t.Errorf("%d %s", code, answer)
	}
}

// TestConcurrentRequestsDoNotRollBack has the race that the protocol describes.
func TestConcurrentRequestsDoNotRollBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 60)
	if _, err := f.Add(0, nil, f.signed(f.states[10])); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for size := 11; size <= 60; size++ {
		body := request(10, f.proof(size, 10), f.signed(f.states[size]))
		wg.Go(func() {
			if code, _, _ := f.post(body); code == http.StatusOK {
				mu.Lock()
				defer mu.Unlock()
				won++
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d of 50 checkpoints after the same one were cosigned", won)
	}
}

func TestAClientFindsTheSizeOfTheWitness(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 30)
	ask := func(c *Client, size int) ([]byte, error) {
		return c.Cosign(t.Context(), f.signed(f.states[size]), func(old int64) (tlog.TreeProof, error) { return f.proof(size, int(old)), nil })
	}
	client := func() *Client {
		c, err := NewClient(f.srv.URL, f.by.Key(), http.DefaultClient)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := client()
	if at, err := c.Last(t.Context(), f.logs[origin]); at != nil || err != nil {
		t.Errorf("before the first: %v, %v", at, err)
	}
	for _, size := range []int{4, 4, 9, 20} {
		if line, err := ask(c, size); err != nil || !bytes.HasPrefix(line, []byte("— w.example ")) {
			t.Fatalf("size %d: %q, %v", size, line, err)
		}
	}
	if _, err := ask(client(), 25); err != nil { // a new one knows no size
		t.Error(err)
	}
	if _, err := ask(c, 30); err != nil { // another request was faster
		t.Error(err)
	}
	refused, ok := errors.AsType[*RefusedError](func() error { _, err := ask(c, 29); return err }())
	if !ok || refused.Size != 30 || !refused.Diverged() {
		t.Errorf("a smaller tree: %v", refused)
	}
	if at, err := c.Last(t.Context(), f.logs[origin]); err != nil || at.N != 30 || at.Hash != f.states[30].Root {
		t.Errorf("last: %v, %v", at, err)
	}
	_, stranger := newLog(t, origin)
	if _, err := c.Last(t.Context(), stranger); !errors.Is(err, headlog.ErrUnknownLog) {
		t.Errorf("the last checkpoint of another log with that name: %v", err)
	}
	for _, bad := range [][2]string{{"w.example", f.by.Key()}, {"ftp://w.example", f.by.Key()}, {f.srv.URL, "w.example+1+x"}} {
		if _, err := NewClient(bad[0], bad[1], http.DefaultClient); err == nil {
			t.Errorf("NewClient accepts %v", bad)
		}
	}
}

// TestAClientTakesOnlyCosignatures has witnesses that answer with something else.
func TestAClientTakesOnlyCosignatures(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	stranger := newCosigner(t, "w.example")
	signed := f.signed(f.states[3])
	theirs, err := note.Sign(&note.Note{Text: f.states[3].Checkpoint().Text()}, stranger)
	if err != nil {
		t.Fatal(err)
	}
	for name, answers := range map[string]http.HandlerFunc{
		"nothing":                   func(http.ResponseWriter, *http.Request) {},
		"a page":                    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"a signature of a stranger": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(theirs[len(theirs)-120:]) },
		"the log's signature": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(signed[bytes.Index(signed, []byte("\n\n"))+2:])
		},
		"conflicts without end": func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusConflict, sizeType, []byte("1\n")) },
		"a negative size":       func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusConflict, sizeType, []byte("-1\n")) },
		"an error":              func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusTeapot, plainText, nil) },
	} {
		srv := httptest.NewServer(answers)
		c, err := NewClient(srv.URL, f.by.Key(), http.DefaultClient)
		if err != nil {
			t.Fatal(err)
		}
		line, err := c.Cosign(t.Context(), signed, func(old int64) (tlog.TreeProof, error) { return f.proof(3, int(old)), nil })
		if err == nil || line != nil {
			t.Errorf("%s: %q", name, line)
		}
		srv.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := NewClient(f.srv.URL, f.by.Key(), http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cosign(ctx, signed, func(int64) (tlog.TreeProof, error) { return nil, nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A log may be hostile to the witness, and to the other logs: what it sends must not keep the witness from starting.
func TestALogStopsNoOther(t *testing.T) {
	t.Parallel()
	evil, evilKey := newLog(t, "evil.example/log")
	_, otherKey := newLog(t, origin)
	dir, by, known := t.TempDir(), newCosigner(t, "w.example"), []note.Verifier{evilKey, otherKey}
	w, err := Open(dir, by, known)
	if err != nil {
		t.Fatal(err)
	}
	root := tlog.RecordHash([]byte("x"))
	text := fmt.Sprintf("evil.example/log\n1\n%s\n", root)
	for len(text) < maxBody-1200 { // the largest request that the server takes
		text += strings.Repeat("x", 999) + "\n"
	}
	signed, err := note.Sign(&note.Note{Text: text}, evil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(0, nil, signed); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(1, nil, signed); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, content := range [][]byte{nil, []byte("no checkpoint")} {
		if content != nil {
			if err := os.WriteFile(filepath.Join(dir, originHash("evil.example/log")+".checkpoint"), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if w, err = Open(dir, by, known); err != nil {
			t.Fatal(err)
		}
		if broken := w.Broken(); (len(broken) > 0) != (content != nil) {
			t.Errorf("broken = %v", broken)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, by, known[:1]); !errors.Is(err, ErrBadState) {
		t.Errorf("with the bad log alone: %v", err)
	}
}

// A clock that is set back would make an honest log look as if it had been rolled back.
func TestCosignaturesDoNotGoBackInTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	now := time.Unix(1000, 0)
	k, err := keys.New()
	if err != nil {
		t.Fatal(err)
	}
	key, err := k.VerifierKey("w2.example")
	if err != nil {
		t.Fatal(err)
	}
	by, err := headlog.NewCosigner(key, func(b []byte) []byte { return k.Sign(b).Bytes }, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	f.Witness.by = by
	for size, want := range []int64{0, 1000, 1000, 1002} {
		if size == 0 {
			continue
		}
		now = time.Unix([]int64{0, 1000, 999, 1002}[size], 0)
		var proof tlog.TreeProof
		if size > 1 {
			proof = f.proof(size, size-1)
		}
		if _, err := f.Add(int64(size-1), proof, f.signed(f.states[size])); err != nil {
			t.Fatal(err)
		}
		_, stored, err := f.Last(origin)
		if err != nil {
			t.Fatal(err)
		}
		n, err := note.Open(stored, note.VerifierList(by))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(n.Sigs[0].Base64)
		if at := int64(binary.BigEndian.Uint64(raw[4:12])); err != nil || at != want {
			t.Errorf("size %d: cosigned at %d, want %d, %v", size, at, want, err)
		}
	}
}
