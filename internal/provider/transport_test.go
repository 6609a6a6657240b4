package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/internal/provider"
)

// trip is a function as a transport.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slow is a body with a delay before each piece.
type slow struct {
	ctx    context.Context //nolint:containedctx // the context of the exchange
	pieces []time.Duration
	closed bool
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(s.pieces[0]):
		s.pieces = s.pieces[1:]
		p[0] = 'x'
		return 1, nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func (s *slow) Close() error {
	s.closed = true
	return nil
}

// read makes an exchange with the given delays before the header and each piece.
func read(ctx context.Context, t *testing.T, silence, head time.Duration, pieces ...time.Duration) (string, error) {
	t.Helper()
	body := &slow{pieces: pieces}
	client := provider.NewClient(&http.Client{Transport: trip(func(r *http.Request) (*http.Response, error) {
		body.ctx = r.Context()
		select {
		case <-time.After(head):
			return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	})}, silence)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); cerr != nil || !body.closed {
		t.Errorf("Close = %v, the body is closed: %t", cerr, body.closed)
	}
	return string(got), err
}

func TestSteadyStreamHasNoTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := read(t.Context(), t, time.Minute, 59*time.Second, 59*time.Second, 59*time.Second, 59*time.Second)
		if err != nil || got != "xxx" {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestSilenceEndsAnExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, wait := range map[string][]time.Duration{
			"before the head":   {10 * time.Minute},
			"before the body":   {0, 10 * time.Minute},
			"within the stream": {0, time.Second, time.Second, 10 * time.Minute},
		} {
			begin := time.Now()
			_, err := read(t.Context(), t, 5*time.Minute, wait[0], wait[1:]...)
			e, ok := errors.AsType[*provider.SilentError](err)
			if !ok || e.After != 5*time.Minute || !e.Timeout() || !e.Temporary() {
				t.Errorf("silence %s: %v", name, err)
			}
			if took := time.Since(begin); took > 5*time.Minute+2*time.Second {
				t.Errorf("silence %s lasted %s", name, took)
			}
		}
	})
}

func TestWithoutLimitSilenceLastsForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got, err := read(t.Context(), t, 0, time.Hour, 24*time.Hour); err != nil || got != "x" {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestCancelIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := read(ctx, t, time.Minute, 0, time.Hour)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's deadline becomes %v", err)
		}
	})
}

func TestClientFollowsNoRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	base := &http.Client{Timeout: time.Minute}
	c := provider.NewClient(base, time.Minute)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if e, ok := errors.AsType[*provider.RedirectError](err); !ok || !strings.Contains(other.URL, e.Host) {
		t.Errorf("a redirect is reported as %v", err)
	}
	if base.Transport != nil || base.CheckRedirect != nil || c.Timeout != base.Timeout {
		t.Error("the given client was written to, or not used")
	}
	if provider.NewClient(nil, 0) == http.DefaultClient {
		t.Error("the default client was given out")
	}
}
