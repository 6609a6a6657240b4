package notary

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/witness"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/heads"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	natstest.Must(tb, err)
}

// deployment is a cell with journals, the key of its log, and a witness of that.
type deployment struct {
	*jetstream.Cell

	t      *testing.T
	srv    *embedded.Server
	signer note.Signer
	key    note.Verifier
	policy *headlog.Policy

	witness *witness.Witness
	asks    func(http.ResponseWriter, *http.Request) bool // answers instead of the witness; nil: never
	refused atomic.Int64                                  // times that the witness saw another history
	via     *http.Client
	address string
	by      *headlog.Cosigner

	heads map[content.SessionID]journal.Head
}

// in runs a test in a bubble with a deployment.
func in(t *testing.T, test func(t *testing.T, d *deployment)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &deployment{t: t, srv: natstest.Start(t), heads: map[content.SessionID]journal.Head{}, address: "http://w.example/"}
		d.Cell = d.connect()
		must(t, admin.Of(d.Cell).Provision(t.Context(), admin.Config{Memory: true}))
		secret, public, err := note.GenerateKey(nil, "example.com/log")
		must(t, err)
		d.signer, err = note.NewSigner(secret)
		must(t, err)
		d.key, err = headlog.ParseLogKey(public)
		must(t, err)
		d.watch(t.TempDir())
		d.policy, err = headlog.ParsePolicy(fmt.Appendf(nil, "log %s\nwitness w %s\nquorum w\n", public, d.by.Key()))
		must(t, err)
		test(t, d)
	})
}

// watch starts the witness.
func (d *deployment) watch(dir string) {
	d.t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	must(d.t, err)
	key, err := note.NewEd25519VerifierKey("w.example", public)
	must(d.t, err)
	d.by, err = headlog.NewCosigner(key, func(text []byte) []byte { return ed25519.Sign(private, text) }, time.Now)
	must(d.t, err)
	d.witness, err = witness.Open(dir, d.by, []note.Verifier{d.key})
	must(d.t, err)
	d.t.Cleanup(func() { must(d.t, d.witness.Close()) })
	handler := d.witness.Handler(zap.NewNop())
	d.via = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		out := httptest.NewRecorder()
		if d.asks == nil || !d.asks(out, r) {
			handler.ServeHTTP(out, r)
		}
		if out.Code == http.StatusUnprocessableEntity {
			d.refused.Add(1)
		}
		return out.Result(), nil
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (d *deployment) connect(opts ...nats.Option) *jetstream.Cell {
	d.t.Helper()
	cell, err := jetstream.Open(natstest.Connect(d.t, d.srv, opts...), "")
	must(d.t, err)
	return cell
}

// write appends an entry to a session.
func (d *deployment) write(s content.SessionID, ev events.Event) {
	d.t.Helper()
	before := d.heads[s]
	e := events.Entry{Session: s, Cause: fmt.Sprintf("c-%d", before.Seq+1), At: content.TimeOf(time.Now()), Epoch: 1, Events: []events.Event{ev}}
	var err error
	d.heads[s], err = d.Journal().Append(d.t.Context(), before, e)
	must(d.t, err)
}

// rest lets sessions with numbers come to rest.
func (d *deployment) rest(from, to int) {
	d.t.Helper()
	for i := from; i < to; i++ {
		d.write(content.SessionID(fmt.Sprintf("s-%d", i)), events.Parked{})
	}
}

// fill begins the log with heads of sessions that no longer exist.
func (d *deployment) fill(leaves int) {
	d.t.Helper()
	s := headlog.NewState(d.signer.Name())
	for i := range leaves {
		var err error
		l := headlog.Leaf{Cell: "turnlog", Session: content.SessionID(fmt.Sprintf("old-%d", i)), Seq: 1, Hash: events.HashOf(nil)}
		s, err = s.Append([][]byte{l.Text()})
		must(d.t, err)
	}
	s.Indexed = s.Tree.Size
	_, err := heads.Of(d.Cell).Commit(d.t.Context(), s, 0)
	must(d.t, err)
	signed, err := s.Checkpoint().Sign(d.signer)
	must(d.t, err)
	must(d.t, heads.Of(d.Cell).Publish(d.t.Context(), signed, 0))
}

// notary returns a notary over a cell.
func (d *deployment) notary(over *jetstream.Cell) *Notary {
	d.t.Helper()
	c, err := witness.NewClient(d.address, d.by.Key(), d.via)
	must(d.t, err)
	n, err := New(over, Config{Signer: d.signer, Key: d.key, Witnesses: []*witness.Client{c}, Quorum: 1}, zap.NewNop())
	must(d.t, err)
	return n
}

// run runs a notary for a time and returns its error.
func (d *deployment) run(n *Notary, long time.Duration) error {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), long)
	defer cancel()
	return n.Run(ctx)
}

// settle runs a notary until all is logged.
func (d *deployment) settle() {
	d.t.Helper()
	must(d.t, d.run(d.notary(d.Cell), 2*Within))
}

// leaves returns the log, after it has verified all of it.
func (d *deployment) leaves() []headlog.Leaf {
	d.t.Helper()
	store := heads.Of(d.Cell)
	signed, at, err := store.Published(d.t.Context())
	must(d.t, err)
	if w, err := d.policy.Open(signed); err != nil || !w.Quorum {
		d.t.Fatalf("the checkpoint is not witnessed: %+v, %v", w, err)
	}
	state, _, err := store.State(d.t.Context())
	must(d.t, err)
	r, err := store.Reader(d.t.Context(), state, at.Tree)
	must(d.t, err)
	var out []headlog.Leaf
	must(d.t, r.Leaves(0, func(_ int64, text []byte) error {
		l, err := headlog.ParseLeaf(text)
		out = append(out, l)
		return err
	}))
	return out
}

// complete checks that each session's head is logged and proved, and that none is logged twice.
func (d *deployment) complete() {
	d.t.Helper()
	newest, seen := map[content.SessionID]headlog.Leaf{}, map[headlog.Leaf]bool{}
	for _, l := range d.leaves() {
		if seen[l] {
			d.t.Errorf("logged twice: %+v", l)
		}
		seen[l] = true
		newest[l.Session] = l
	}
	for s, h := range d.heads {
		want := headlog.Leaf{Cell: "turnlog", Session: s, Seq: h.Seq, Hash: h.Hash}
		if newest[s] != want {
			d.t.Errorf("newest leaf %+v, want %+v", newest[s], want)
		}
		p, err := heads.Of(d.Cell).Prove(d.t.Context(), s)
		if err != nil {
			d.t.Error(err)
			continue
		}
		if at, err := p.Verify(d.policy); err != nil || !at.Quorum || p.Leaf != want {
			d.t.Errorf("proof of %s: %+v, %v", s, p.Leaf, err)
		}
	}
	if n := d.refused.Load(); n > 0 {
		d.t.Errorf("the witness saw another history %d times", n)
	}
}

// ask makes a request to the JetStream API.
func (d *deployment) ask(what string, body any) []byte {
	d.t.Helper()
	data, err := json.Marshal(body)
	must(d.t, err)
	if body == nil {
		data = nil
	}
	answer, err := d.Conn().RequestWithContext(d.t.Context(), "$JS.API."+what, data)
	must(d.t, err)
	if bytes.Contains(answer.Data, []byte(`"error"`)) {
		d.t.Fatalf("%s: %s", what, answer.Data)
	}
	return answer.Data
}

func TestHeadsAreLoggedWhenSessionsRest(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- d.notary(d.connect()).Run(ctx) }()
		d.write("s-1", events.RoundStarted{Turn: "turn-1", Round: 1})
		d.write("s-1", events.TurnFinished{Turn: "turn-1"})
		d.write("s-2", events.Parked{})
		d.write("s-3", events.RoundStarted{Turn: "turn-1", Round: 1})
		<-time.After(3 * time.Second)
		if got := d.leaves(); len(got) != 2 || got[0].Session != "s-1" || got[0].Seq != 2 || got[1].Session != "s-2" {
			t.Errorf("after 3 s: %+v", got)
		}
		if _, err := heads.Of(d.Cell).Prove(t.Context(), "s-3"); !errors.Is(err, heads.ErrNotLogged) {
			t.Error(err)
		}
		<-time.After(Within)
		if got := d.leaves(); len(got) != 3 || got[2].Session != "s-3" {
			t.Errorf("after a minute: %+v", got)
		}
		d.write("s-2", events.SessionDeleted{By: "ada"})
		<-time.After(3 * time.Second)
		if got := d.leaves(); len(got) != 4 || got[3].Seq != 2 {
			t.Errorf("after the deletion: %+v", got)
		}
		d.complete()
		cancel()
		must(t, <-done)
	})
}

func TestThereIsNoLogBeforeTheFirstHead(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		d.settle()
		if _, err := heads.Of(d.Cell).Prove(t.Context(), "s-1"); !errors.Is(err, heads.ErrNoLog) {
			t.Error(err)
		}
	})
}

func TestALongJournalIsLoggedFromTheBeginning(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		d.rest(0, 700)
		d.settle()
		if got := len(d.leaves()); got != 700 {
			t.Errorf("%d leaves", got)
		}
		d.complete()
	})
}

func TestANotaryWaitsForRoom(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		limit := func(name string, size int64) {
			var is struct {
				Config map[string]any `json:"config"`
			}
			must(t, json.Unmarshal(d.ask("STREAM.INFO."+name, nil), &is))
			is.Config["max_bytes"] = size
			d.ask("STREAM.UPDATE."+name, is.Config)
		}
		d.fill(240)
		d.rest(240, 250)
		d.settle()
		limit("OBJ_TURNLOG_LOG", 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.notary(d.connect()).Run(ctx) }()
		d.rest(250, 270)
		<-time.After(time.Minute)
		if got := len(d.leaves()); got != 250 {
			t.Errorf("%d leaves are published without room for the tile of 256", got)
		}
		limit("KV_TURNLOG_CHECKPOINTS", 1)
		limit("OBJ_TURNLOG_LOG", -1)
		d.rest(270, 280)
		<-time.After(time.Minute)
		limit("KV_TURNLOG_CHECKPOINTS", -1)
		<-time.After(time.Minute)
		cancel()
		must(t, <-done)
		d.complete()
	})
}

// TestARewrittenLogIsNotSigned changes the streams of the log between two runs.
func TestARewrittenLogIsNotSigned(t *testing.T) {
	t.Parallel()
	forged := func(d *deployment, leaves int) headlog.State {
		s := headlog.NewState("example.com/log")
		for i := range leaves {
			next, err := s.Append([][]byte{headlog.Leaf{Cell: "turnlog", Session: "forged", Seq: uint64(i + 1), Hash: events.HashOf(nil)}.Text()}) //nolint:gosec // small
			must(d.t, err)
			s = next
		}
		return s
	}
	put := func(d *deployment, s headlog.State) {
		_, number, err := heads.Of(d.Cell).State(d.t.Context())
		must(d.t, err)
		_, err = heads.Of(d.Cell).Commit(d.t.Context(), s, number)
		must(d.t, err)
	}
	publish := func(d *deployment, s headlog.State) {
		signed, err := s.Checkpoint().Sign(d.signer)
		must(d.t, err)
		_, number, err := heads.Of(d.Cell).Checkpoint(d.t.Context())
		must(d.t, err)
		must(d.t, heads.Of(d.Cell).Publish(d.t.Context(), signed, number))
	}
	for name, change := range map[string]func(d *deployment, earlier headlog.State){
		"the state is an earlier one":         func(d *deployment, earlier headlog.State) { put(d, earlier) },
		"the state is another one":            func(d *deployment, _ headlog.State) { put(d, forged(d, 40)) },
		"the checkpoint also":                 func(d *deployment, _ headlog.State) { put(d, forged(d, 40)); publish(d, forged(d, 40)) },
		"the checkpoint also is earlier":      func(d *deployment, e headlog.State) { put(d, e); publish(d, e) },
		"the checkpoint is another one":       func(d *deployment, _ headlog.State) { publish(d, forged(d, 20)) },
		"the checkpoint is beyond the state":  func(d *deployment, _ headlog.State) { publish(d, forged(d, 99)) },
		"the log has one leaf of another one": func(d *deployment, _ headlog.State) { put(d, forged(d, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, d *deployment) {
				d.rest(0, 20)
				d.settle()
				earlier, _, err := heads.Of(d.Cell).State(t.Context())
				must(t, err)
				d.rest(20, 30)
				d.settle()
				change(d, earlier)
				d.rest(15, 31) // otherwise the same leaves would extend an earlier state
				if err := d.run(d.notary(d.Cell), time.Minute); !errors.Is(err, ErrRewritten) {
					t.Errorf("Run = %v, want ErrRewritten", err)
				}
				last, _, err := d.witness.Last("example.com/log")
				if err != nil || last.N != 30 {
					t.Errorf("the witness has cosigned %v, %v", last, err)
				}
			})
		})
	}
}

func TestANotaryUsesTheKeyOfTheLog(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		d.rest(0, 3)
		d.settle()
		for _, name := range []string{"example.com/log", "example.org/other"} {
			secret, public, err := note.GenerateKey(nil, name)
			must(t, err)
			n := d.notary(d.Cell)
			n.Signer, err = note.NewSigner(secret)
			must(t, err)
			n.Key, err = note.NewVerifier(public)
			must(t, err)
			if err := d.run(n, time.Minute); !errors.Is(err, ErrOtherLog) {
				t.Errorf("another key named %s: %v", name, err)
			}
		}
	})
}

// TestACheckpointIsPublishedWithItsCosignatures has a witness that is unavailable for an hour.
func TestACheckpointIsPublishedWithItsCosignatures(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		d.rest(0, 3)
		d.settle()
		var away atomic.Bool
		away.Store(true)
		d.asks = func(w http.ResponseWriter, _ *http.Request) bool {
			if away.Load() {
				w.WriteHeader(http.StatusBadGateway)
			}
			return away.Load()
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.notary(d.connect()).Run(ctx) }()
		d.rest(0, 5)
		<-time.After(time.Hour)
		if got := len(d.leaves()); got != 3 {
			t.Errorf("%d leaves are published without a cosignature", got)
		}
		away.Store(false)
		<-time.After(time.Minute)
		d.complete()
		cancel()
		must(t, <-done)
	})
}

// TestAWitnessCannotStopANotary has a witness that claims to have seen more.
func TestAWitnessCannotStopANotary(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		d.asks = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/add-checkpoint") {
				w.WriteHeader(http.StatusConflict)
				_, _ = w.Write([]byte("1000000\n"))
				return true
			}
			return false
		}
		d.rest(0, 3)
		if err := d.run(d.notary(d.Cell), time.Minute); err != nil {
			t.Error(err)
		}
		d.asks = nil
		d.settle()
		d.complete()
	})
}

func TestANotaryReadsAllJournalsIfTheyAreOthers(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		d.rest(0, 9)
		d.settle()
		d.ask("STREAM.PURGE.TURNLOG_JOURNAL", nil)
		d.heads = map[content.SessionID]journal.Head{}
		d.rest(20, 25)
		d.settle()
		d.complete()
		if got := len(d.leaves()); got != 14 {
			t.Errorf("%d leaves", got)
		}
	})
}
