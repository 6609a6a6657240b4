package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answered is a response as the client sees it.
type answered struct {
	status int
	header http.Header
	body   string
}

// exchange posts body and reads the complete response.
func exchange(ctx context.Context, t *testing.T, url, body string) (answered, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Key", "k")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answered{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return answered{resp.StatusCode, resp.Header, string(got)}, err
}

func TestServerRespondsAndRecordsRequests(t *testing.T) {
	t.Parallel()
	s := Serve(t, func(a Asked) Answer {
		return Answer{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "7"}, Body: string(a.Body) + "\n!"}
	})
	got, err := exchange(t.Context(), t, s.URL+"/v1/x?beta=true", "hello")
	if err != nil {
		t.Fatal(err)
	}
	if got.body != "hello\n!" || got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "7" {
		t.Errorf("got %+v", got)
	}
	if ct := got.header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("Content-Type = %q", ct)
	}
	asked := s.Asked()
	if len(asked) != 1 {
		t.Fatalf("%d requests were noted, want 1", len(asked))
	}
	a := asked[0]
	if a.Method != http.MethodPost || a.Path != "/v1/x" || a.Query != "beta=true" || string(a.Body) != "hello" || a.Header.Get("X-Key") != "k" {
		t.Errorf("noted %+v", a)
	}
}

func TestServerBreaksTheConnection(t *testing.T) {
	t.Parallel()
	s := ServeOne(t, Answer{Body: "half", Cut: true})
	if got, err := exchange(t.Context(), t, s.URL, ""); !errors.Is(err, io.ErrUnexpectedEOF) || got.body != "half" {
		t.Errorf("got %q, %v, want half and an unexpected end", got.body, err)
	}
}

func TestServerIsSilentUntilTheClientDisconnects(t *testing.T) {
	t.Parallel()
	s := ServeOne(t, Answer{Body: "first\n", Silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got, err := exchange(ctx, t, s.URL, "")
	if !errors.Is(err, context.DeadlineExceeded) || got.body != "first\n" {
		t.Errorf("got %q, %v, want the first line and then nothing", got.body, err)
	}
}

func TestBodiesAreSplitIntoPieces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		n    int
		want string
	}{
		{"a\nb\nc", 0, "a\n|b\n|c"},
		{"abcdefg", 3, "abc|def|g"},
		{"ab", 5, "a|b"},
		{"", 2, ""},
	} {
		var got []string
		for p := range pieces([]byte(c.body), c.n) {
			got = append(got, string(p))
		}
		if joined := strings.Join(got, "|"); joined != c.want {
			t.Errorf("pieces(%q, %d) = %q, want %q", c.body, c.n, joined, c.want)
		}
	}
}
