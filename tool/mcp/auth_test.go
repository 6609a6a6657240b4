package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// lock demands a token for some requests.
type lock struct {
	mu    sync.Mutex
	token string   // the valid token; "": none is
	only  string   // lock only requests whose body contains this; "": all
	seen  []string // Authorization headers
	hint  string   // of the challenge
	code  int      // of the refusal; 0: 401
}

func (l *lock) set(edit func(*lock)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	edit(l)
}

func (l *lock) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(raw)))
		l.mu.Lock()
		given := r.Header.Get("Authorization")
		l.seen = append(l.seen, given)
		open := l.only != "" && !strings.Contains(string(raw), l.only) || l.token != "" && given == "Bearer "+l.token
		hint, code := l.hint, l.code
		l.mu.Unlock()
		if open {
			next.ServeHTTP(w, r)
			return
		}
		if code == http.StatusForbidden && hint == "" {
			w.WriteHeader(code)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="notes"`+hint)
		w.WriteHeader(max(code, http.StatusUnauthorized))
	})
}

// wantAuth checks that a result demands authorization.
func wantAuth(t *testing.T, r tool.Result, want tool.AuthRequest) {
	t.Helper()
	var got tool.AuthRequest
	if err := json.Unmarshal(r.Auth, &got); err != nil || r.Result.Code != tool.CodeAuth {
		t.Fatalf("result = %s %q %q, auth %s", r.Result.Status, r.Result.Code, r.Result.Text(), r.Auth)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACallDemandsAuthorizationAndTheNextOneUsesIt(t *testing.T) {
	t.Parallel()
	for name, legacy := range map[string]bool{"now": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, k := newFake(legacy), &lock{token: "right", only: `"echo"`, hint: `, scope="notes:read"`}
			m := open(t, Config{Servers: []Server{{Name: "x", URL: f.serve(t, k.around).URL}}})
			ready(t, m)
			session := m.links[0].current().conn
			echo := named(t, m, "mcp_x_echo")
			want := tool.AuthRequest{
				ID: "mcp:x:tools/call", Provider: "x", Operation: tool.AuthOperation{Kind: "tool_call", Server: "x", Name: "echo"},
				Challenge: json.RawMessage(`{"status":401,"scheme":"bearer","params":{"realm":"notes","scope":"notes:read"}}`),
			}
			r := invoke(t, echo, `{"text":"a"}`)
			wantAuth(t, r, want)
			wantText(t, r, content.StatusError, tool.CodeAuth, "Authorization required: x: tool_call")
			wantText(t, invoke(t, named(t, m, "mcp_x_set"), `{"text":"a"}`), content.StatusOK, "", "set")
			if err := m.ResolveAuth(within(t), "x", Resolution{Token: "wrong"}); err != nil {
				t.Fatal(err)
			}
			wantAuth(t, invoke(t, echo, `{"text":"a"}`), want)
			if err := m.ResolveAuth(within(t), "x", Resolution{Cancelled: true}); err != nil {
				t.Fatal(err)
			}
			wantAuth(t, invoke(t, echo, `{"text":"a"}`), want)
			if err := m.ResolveAuth(within(t), "x", Resolution{Token: "right"}); err != nil {
				t.Fatal(err)
			}
			wantText(t, invoke(t, echo, `{"text":"a"}`), content.StatusOK, "", "a")
			if m.links[0].current().conn != session {
				t.Error("the refusal cost the connection")
			}
		})
	}
}

func TestAServerThatDemandsAuthorizationConnectsOnceItHasIt(t *testing.T) {
	t.Parallel()
	k := &lock{token: "right"}
	m := open(t, Config{
		Backoff: Backoff{First: 1 << 40, Most: 1 << 40}, // no automatic retries
		Servers: []Server{{Name: "x", URL: newFake(false).serve(t, k.around).URL}},
	})
	st := m.Settle(within(t))[0]
	if st.State != Unavailable || st.Auth == nil || st.Auth.ID != "mcp:x:initialize" || st.Auth.Operation.Kind != "connect" {
		t.Fatalf("status = %+v", st)
	}
	if err := m.ResolveAuth(within(t), "x", Resolution{Token: "wrong"}); err == nil || !strings.Contains(err.Error(), "authorize x: authorization required") {
		t.Errorf("a wrong token is taken: %v", err)
	}
	if err := m.ResolveAuth(within(t), "x", Resolution{Token: "right"}); err != nil {
		t.Fatal(err)
	}
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusOK, "", "a")
}

// TestAnEarlierAttemptDoesNotAnswerAnAuthorization has an attempt with the old token that fails
// after the new token was set.
func TestAnEarlierAttemptDoesNotAnswerAnAuthorization(t *testing.T) {
	t.Parallel()
	var asked, last atomic.Int32 // asked counts reads of the token; last is the one after which the attempt fails
	refused, given := make(chan struct{}), make(chan struct{})
	m := open(t, Config{
		Backoff: Backoff{First: 1 << 40, Most: 1 << 40}, // no automatic retries
		Servers: []Server{{Name: "x", URL: newFake(false).serve(t, (&lock{token: "right"}).around).URL, Token: "env:TOKEN"}},
		Getenv: func(string) string {
			if asked.Add(1) == last.Load() {
				close(refused)
				<-given
			}
			return "wrong"
		},
	})
	if st := m.Settle(within(t))[0]; st.Auth == nil {
		t.Fatalf("status = %+v", st)
	}
	last.Store(2 * asked.Load())
	var calls sync.WaitGroup
	defer calls.Wait()
	calls.Go(func() {
		if _, err := m.links[0].connected(within(t), nil, false); err == nil {
			t.Error("the old token is taken")
		}
	})
	<-refused
	calls.Go(func() {
		if err := m.ResolveAuth(within(t), "x", Resolution{Token: "right"}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "it waits for an attempt", func() bool { return len(m.links[0].hurry) > 0 })
	close(given)
}

func TestARevokedTokenLeavesTheToolsOnOffer(t *testing.T) {
	t.Parallel()
	f, k := newFake(true), &lock{token: "first"}
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	m := open(t, Config{
		Backoff: Backoff{First: 1 << 40, Most: 1 << 40},
		Servers: []Server{{Name: "x", URL: f.serve(t, k.around).URL, Token: "file:" + file}},
	})
	ready(t, m)
	echo := named(t, m, "mcp_x_echo")
	k.set(func(l *lock) { l.token = "second" })
	signal(m.links[0].news)
	eventually(t, "it is unavailable", func() bool { return m.Status()[0].State == Unavailable })
	if !slices.Contains(names(t, m), "mcp_x_echo") {
		t.Errorf("tools = %v", names(t, m))
	}
	wantAuth(t, invoke(t, echo, `{"text":"a"}`), tool.AuthRequest{
		ID: "mcp:x:initialize", Provider: "x", Operation: tool.AuthOperation{Kind: "connect", Server: "x", Name: "echo"},
		Challenge: json.RawMessage(`{"status":401,"scheme":"bearer","params":{"realm":"notes"}}`),
	})
	write("second") // as an operator does
	wantText(t, invoke(t, echo, `{"text":"b"}`), content.StatusOK, "", "b")
	k.set(func(l *lock) { l.token = "third" })
	write("third")
	wantText(t, invoke(t, echo, `{"text":"c"}`), content.StatusOK, "", "c")
}

func TestSecretsAreResolvedLateAndNeverShown(t *testing.T) {
	t.Parallel()
	k := &lock{token: "s3cret-token"}
	var mu sync.Mutex
	env := map[string]string{}
	var headers []string
	spy := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			headers = append(headers, r.Header.Get("X-Key"))
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}
	core, logs := observer.New(zap.DebugLevel)
	m := open(t, Config{
		Logger: zap.New(core),
		Getenv: func(name string) string {
			mu.Lock()
			defer mu.Unlock()
			return env[name]
		},
		Servers: []Server{{
			Name: "x", URL: newFake(false).serve(t, k.around, spy).URL + "/?key=s3cret-query", Token: "env:TOKEN",
			Headers: map[string]string{"X-Key": "env:KEY"},
		}},
	})
	st := m.Settle(within(t))[0]
	if st.Err == nil || st.Err.Error() != "authorization required: header X-Key: environment variable KEY is not set" {
		t.Errorf("error = %v", st.Err)
	}
	mu.Lock()
	env["TOKEN"], env["KEY"] = "s3cret-token", "s3cret-key"
	mu.Unlock()
	if _, err := m.links[0].connected(within(t), nil, false); err != nil {
		t.Fatal(err)
	}
	k.set(func(l *lock) { l.token = "" })
	r := invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`)
	var shown strings.Builder
	fmt.Fprintf(&shown, "%+v %+v %s %s", m.Status(), r, r.Auth, m.links[0].cfg.Address())
	for _, e := range logs.All() {
		fmt.Fprintf(&shown, "\n%s %v", e.Message, e.ContextMap())
	}
	if shown := shown.String(); strings.Contains(shown, "s3cret") {
		t.Errorf("a secret is shown:\n%s", shown)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(headers, "s3cret-key") {
		t.Errorf("headers = %q", headers)
	}
}

// A server could have its worker send requests to any host that the worker reaches.
func TestRequestsStayWithTheServer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Authorization")+r.Header.Get("X-Key"))
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(other.Close)
	lured := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(lured.Close)
	m := open(t, Config{Getenv: func(string) string { return "secret" }, Servers: []Server{
		{Name: "x", URL: lured.URL, Token: "env:TOKEN", Headers: map[string]string{"X-Key": "env:KEY"}},
	}})
	if err := m.Settle(within(t))[0].Err; err == nil || !strings.Contains(err.Error(), "the server redirects to "+other.URL+",") {
		t.Errorf("error = %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 0 {
		t.Errorf("another host got %q", got)
	}
}

func TestForbiddenIsADenial(t *testing.T) {
	t.Parallel()
	k := &lock{only: `"echo"`, code: http.StatusForbidden}
	m := open(t, Config{Servers: []Server{{Name: "x", URL: newFake(true).serve(t, k.around).URL}}})
	ready(t, m)
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusError, tool.CodeDenied, "the server forbids it (403)")
	if err := m.ResolveAuth(within(t), "x", Resolution{Token: "right"}); err != nil {
		t.Fatal(err)
	}
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusError, tool.CodeDenied, "the server forbids it (403)")
	k.set(func(l *lock) { l.token = "right" })
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"the token was kept"}`), content.StatusOK, "", "the token was kept")
	k.set(func(l *lock) { l.token, l.hint = "", `, error="insufficient_scope", scope="notes:write"` })
	wantAuth(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), tool.AuthRequest{
		ID: "mcp:x:tools/call", Provider: "x", Operation: tool.AuthOperation{Kind: "tool_call", Server: "x", Name: "echo"},
		Challenge: json.RawMessage(`{"status":403,"scheme":"bearer","params":{"error":"insufficient_scope","realm":"notes","scope":"notes:write"}}`),
	})
}

// issuer is an authorization server that issues the token "right".
func issuer(t *testing.T) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?code=1&state="+r.URL.Query().Get("state"), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"access_token": "right", "token_type": "Bearer", "expires_in": 3600})
	})
	return s.URL
}

// protected is a server whose tokens come from an issuer.
func protected(t *testing.T, k *lock) string {
	t.Helper()
	from := issuer(t)
	var url string
	s := newFake(false).serve(t, k.around, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(map[string]any{"resource": url, "authorization_servers": []string{from}})
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	url = s.URL
	return url
}

func clientCredentials(t *testing.T) auth.OAuthHandler {
	t.Helper()
	h, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{Credentials: &oauthex.ClientCredentials{
		ClientID: "turnlog", ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: "s"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestClientCredentialsNeedNoPerson(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{{Name: "x", URL: protected(t, &lock{token: "right"}), OAuth: clientCredentials(t)}}})
	ready(t, m)
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusOK, "", "a")
}

func TestAPersonAuthorizesOutOfBand(t *testing.T) {
	t.Parallel()
	// The browser: the issuer redirects it back with the code.
	browse := func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
		if err != nil {
			return nil, err
		}
		c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := c.Do(r)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		to, err := resp.Location()
		if err != nil {
			return nil, err
		}
		return &auth.AuthorizationResult{Code: to.Query().Get("code"), State: to.Query().Get("state")}, nil
	}
	handler := func(fetch auth.AuthorizationCodeFetcher) auth.OAuthHandler {
		h, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
			PreregisteredClient: &oauthex.ClientCredentials{ClientID: "turnlog", ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: "s"}},
			RedirectURL:         "http://127.0.0.1:9/back", AuthorizationCodeFetcher: fetch,
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	m := open(t, Config{Servers: []Server{{Name: "x", URL: protected(t, &lock{token: "right"})}}})
	if st := m.Settle(within(t))[0]; st.Auth == nil {
		t.Fatalf("status = %+v", st)
	}
	no := errors.New("the person says no")
	err := m.ResolveAuth(within(t), "x", Resolution{Handler: handler(func(context.Context, *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) { return nil, no })})
	if !errors.Is(err, no) {
		t.Errorf("error = %v", err)
	}
	if err := m.ResolveAuth(within(t), "x", Resolution{Handler: handler(browse)}); err != nil {
		t.Fatal(err)
	}
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusOK, "", "a")
}

// countingHandler counts the challenges that it is asked to answer.
type countingHandler struct {
	auth.OAuthHandler
	challenges atomic.Int32
}

func (h *countingHandler) Authorize(context.Context, *http.Request, *http.Response) error {
	h.challenges.Add(1)
	return nil
}

func TestAnAcceptedTokenEndsTheChallenge(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]int{"in a retry": 1, "in the next call": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var renewed atomic.Bool // the variable holds the new token
			k := &lock{token: "new", only: `"echo"`}
			var refusals atomic.Int32
			m := open(t, Config{
				Getenv: func(string) string {
					if renewed.Load() {
						return "new"
					}
					return "old"
				},
				Servers: []Server{{Name: "x", Token: "env:TOKEN", URL: newFake(true).serve(t, k.around, func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w = &refusalWatcher{w, func() { renewed.Store(int(refusals.Add(1)) >= calls) }}
						next.ServeHTTP(w, r)
					})
				}).URL}},
			})
			ready(t, m)
			echo := named(t, m, "mcp_x_echo")
			if calls == 2 {
				wantText(t, invoke(t, echo, `{"text":"a"}`), content.StatusError, tool.CodeAuth, "Authorization required")
			}
			wantText(t, invoke(t, echo, `{"text":"a"}`), content.StatusOK, "", "a")
			h := countingHandler{OAuthHandler: clientCredentials(t)}
			if err := m.ResolveAuth(within(t), "x", Resolution{Handler: &h}); err != nil {
				t.Fatal(err)
			}
			if n := h.challenges.Load(); n != 0 {
				t.Errorf("the handler got %d challenges that an accepted token had answered", n)
			}
		})
	}
}

// refusalWatcher calls refused before a response of 401 is sent.
type refusalWatcher struct {
	http.ResponseWriter
	refused func()
}

func (w *refusalWatcher) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		w.refused()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *refusalWatcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestInvalidResolutionsAreRefused(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{{Name: "x", URL: newFake(false).serve(t).URL}, programServer(t, "p", "new")}})
	for _, err := range []error{
		m.ResolveAuth(within(t), "x", Resolution{}), m.ResolveAuth(within(t), "p", Resolution{Token: "a"}),
	} {
		if err == nil {
			t.Error("it is taken")
		}
	}
	if err := m.ResolveAuth(within(t), "none", Resolution{Token: "a"}); !errors.Is(err, ErrUnknownServer) {
		t.Errorf("unknown server: %v", err)
	}
}
