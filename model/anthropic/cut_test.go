package anthropic_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/anthropic"
	"github.com/turnlog/turnlog/model/modeltest"
)

// trip is a transport without a network.
type trip func() io.Reader

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(f()), Request: r,
	}, nil
}

// TestCutAnywhereIsRetryable ends each recorded stream early, cleanly and
// with an error. Part of a response must never count as a reply.
func TestCutAnywhereIsRetryable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"text", "thinking_calls", "compaction", "refusal", "cut_call"} {
		whole := recorded(t, name)
		for n := range len(whole) {
			if n%11 != 0 && n < len(whole)-30 {
				continue // every byte would take seconds
			}
			for how, rest := range map[string]io.Reader{"ended": strings.NewReader(""), "broke": iotest.ErrReader(io.ErrUnexpectedEOF)} {
				client := &http.Client{Transport: trip(func() io.Reader { return io.MultiReader(strings.NewReader(whole[:n]), rest) })}
				m := open(t, &modeltest.Server{URL: "http://localhost:1"}, func(c *anthropic.Config) { c.HTTP = client })
				reply, err := m.Call(t.Context(), modeltest.Ask("go on"), func(content.Delta) {})
				if err == nil {
					t.Fatalf("%s %s after %d bytes of %d: %+v", name, how, n, len(whole), reply)
				}
				if e := modelError(t, err); !e.Class.Retryable() {
					t.Fatalf("%s %s after %d bytes: %v", name, how, n, e)
				}
			}
		}
	}
}
