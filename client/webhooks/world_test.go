package webhooks

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	natstest.Must(tb, err)
}

// secretOf returns a secret as a file has it.
func secretOf(fill byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

// world is a cell with journals, and a receiver at each name.
type world struct {
	*jetstream.Cell

	t     *testing.T
	srv   *embedded.Server
	heads map[content.SessionID]journal.Head

	mu       sync.Mutex
	secrets  map[string]string                  // of endpoints
	answers  map[string]func(*http.Request) int // of endpoints, 200 without one
	sent     map[string][]message               // to each endpoint
	arrived  map[string][]string                // IDs that each endpoint acknowledged
	payloads map[string]Payload                 // by ID
	retry    string                             // the header Retry-After of answers
	outcomes map[Outcome]int
}

// message is what an endpoint was sent.
type message struct {
	header http.Header
	body   []byte
}

func (m message) id() string { return m.header.Get("webhook-id") }

// in runs a test in a bubble with a cell.
func in(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, srv: natstest.Start(t), heads: map[content.SessionID]journal.Head{}, secrets: map[string]string{}, answers: map[string]func(*http.Request) int{},
			sent: map[string][]message{}, arrived: map[string][]string{}, payloads: map[string]Payload{}, outcomes: map[Outcome]int{},
		}
		w.Cell = w.connect()
		must(t, admin.Of(w.Cell).Provision(t.Context(), admin.Config{Memory: true}))
		test(t, w)
	})
}

func (w *world) connect() *jetstream.Cell {
	w.t.Helper()
	cell, err := jetstream.Open(natstest.Connect(w.t, w.srv), "")
	must(w.t, err)
	return cell
}

// write appends an entry to a session.
func (w *world) write(s content.SessionID, evs ...events.Event) journal.Head {
	w.t.Helper()
	before := w.heads[s]
	e := events.Entry{Session: s, Cause: fmt.Sprintf("c-%d", before.Seq+1), At: content.TimeOf(time.Now()), Epoch: 1, Events: evs}
	var err error
	w.heads[s], err = w.Journal().Append(w.t.Context(), before, e)
	must(w.t, err)
	return w.heads[s]
}

// finish writes that turns of a session ended.
func (w *world) finish(s content.SessionID, turns int) {
	w.t.Helper()
	for i := range turns {
		w.write(s, events.TurnFinished{Turn: content.TurnID(fmt.Sprintf("t%d", i+1)), FinishReason: content.Completed, Rounds: 1})
	}
}

// endpoint returns an endpoint whose secret the world knows.
func (w *world) endpoint(name string) Endpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[name] = secretOf(byte(len(w.secrets) + 1))
	return Endpoint{Name: name, URL: "https://" + name + ".example/hooks", Secrets: func() ([][]byte, error) { return ParseSecrets(w.secrets[name]) }}
}

// RoundTrip is the receiver of all endpoints: it verifies signatures with the library of Standard Webhooks.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	must(w.t, err)
	name := r.URL.Host[:len(r.URL.Host)-len(".example")]
	w.mu.Lock()
	answer, retry := w.answers[name], w.retry
	secret, id := w.secrets[name], r.Header.Get("webhook-id")
	w.sent[name] = append(w.sent[name], message{r.Header.Clone(), body})
	w.mu.Unlock()
	if name != "rotated" { // its test verifies
		verifier, err := standardwebhooks.NewWebhook(secret)
		must(w.t, err)
		if err := verifier.Verify(body, r.Header); err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
	}
	status := http.StatusOK
	if answer != nil {
		status = answer(r)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if status/100 == 2 {
		var p Payload
		must(w.t, json.Unmarshal(body, &p))
		w.arrived[name] = append(w.arrived[name], id)
		w.payloads[id] = p
	}
	out := httptest.NewRecorder()
	out.Header().Set("Retry-After", retry)
	out.WriteHeader(status)
	return out.Result(), nil
}

// answer has an endpoint answer with a status.
func (w *world) answer(name string, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[name] = func(*http.Request) int { return status }
}

// attempts returns what an endpoint was sent, acknowledged or not.
func (w *world) attempts(name string) []message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent[name])
}

// got returns the IDs that an endpoint acknowledged.
func (w *world) got(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.arrived[name])
}

// count returns how often there was an outcome.
func (w *world) count(o Outcome) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outcomes[o]
}

// start starts a sender, and returns how to stop it. It follows the journal when start returns.
func (w *world) start(endpoints ...Endpoint) (stop func()) {
	w.t.Helper()
	s := New(w.connect(), Config{Endpoints: endpoints, Attempted: func(_ string, o Outcome) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.outcomes[o]++
	}}, zap.NewNop())
	s.transport = func(Endpoint) http.RoundTripper { return w }
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-time.After(2 * time.Second)
	return func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

func distinct(ids []string) int {
	slices.Sort(ids)
	return len(slices.Compact(ids))
}
