package webhooks

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/zap"
)

// receiver is a server that answers by path. count returns how many requests a path had.
func receiver(t *testing.T) (s *httptest.Server, count func(path string) int) {
	t.Helper()
	var mu sync.Mutex
	reached := map[string]int{}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		reached[r.URL.Path]++
		mu.Unlock()
		switch r.URL.Path {
		case "/elsewhere":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/ok", http.StatusTemporaryRedirect)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/busy":
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	})
	s = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s, func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		return reached[path]
	}
}

func secrets() ([][]byte, error) { return ParseSecrets(secretOf(1)) }

func TestAnswersOfRealReceivers(t *testing.T) {
	t.Parallel()
	server, reached := receiver(t)
	at := server.URL
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	local := "http://localhost" + at[strings.LastIndex(at, ":"):]
	for _, x := range []struct {
		url     string
		private []netip.Prefix
		want    answer
	}{
		{at + "/ok", loopback, answer{}},
		{at + "/elsewhere", loopback, answer{failure: "the endpoint answered 302, and redirects are not followed"}},
		{at + "/here", loopback, answer{failure: "the endpoint answered 307, and redirects are not followed"}},
		{at + "/gone", loopback, answer{failure: "the endpoint answered 410", gone: true}},
		{at + "/busy", loopback, answer{failure: "the endpoint answered 503", pause: 30 * time.Second}},
		{at + "/cut", loopback, answer{failure: "EOF"}},
		{at + "/private", nil, answer{failure: "its address 127.0.0.1 is not public"}},
		{local + "/private", nil, answer{failure: " is not public"}},
		{at + "/private", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, answer{failure: "its address 127.0.0.1 is not public"}},
	} {
		s := &Sender{log: zap.NewNop(), transport: func(e Endpoint) http.RoundTripper { return newTransport(e) }}
		got := s.deliverer(Endpoint{URL: x.url, Private: x.private, Secrets: secrets}).post(t.Context(), "msg_1", []byte(`{}`))
		if got.gone != x.want.gone || got.pause != x.want.pause || !strings.Contains(got.failure, x.want.failure) || (got.failure == "") != (x.want.failure == "") || strings.Contains(got.failure, at) {
			t.Errorf("%s: %+v, want %+v", x.url, got, x.want)
		}
	}
	if private, ok := reached("/private"), reached("/ok"); private > 0 || ok != 1 {
		t.Errorf("%d requests reached a private address, %d the public one", private, ok)
	}
}

func TestRetryAfterIsSecondsOrATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 4, 30, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "90": 90 * time.Second, "-1": 0, "soon": 0, "999999": maxPause,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := pauseOf(value, now); got != want {
			t.Errorf("pauseOf(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	keys, err := secrets()
	must(t, err)
	h, now, body := http.Header{}, time.Now(), []byte(`{"a":1}`)
	sign(h, keys, "msg_1", now, body)
	verifier, err := standardwebhooks.NewWebhook(secretOf(1))
	must(t, err)
	want, err := verifier.Sign("msg_1", now, body)
	must(t, err)
	if got := h.Get("webhook-signature"); got != want {
		t.Errorf("signature = %s, want %s", got, want)
	}
}
