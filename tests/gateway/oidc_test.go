package gateway

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/internal/testing/issuertest"
)

// browser is a browser without a token, which keeps cookies and follows no redirect.
type browser struct{ cookies map[string]*http.Cookie }

func (b *browser) get(s *service, method, path string, change ...request) answer {
	s.w.T.Helper()
	a := s.do(method, path, nil, append([]request{func(r *http.Request) {
		r.Header.Del("Authorization")
		for _, c := range b.cookies {
			r.AddCookie(c)
		}
	}}, change...)...)
	for _, line := range a.header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		if err != nil {
			s.w.T.Fatal(err)
		}
		if b.cookies == nil {
			b.cookies = map[string]*http.Cookie{}
		}
		if b.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return a
}

// atProvider follows a gateway's redirect to the provider, and returns where the provider redirects to.
func (p *issuer) atProvider(t testing.TB, a answer) string {
	t.Helper()
	if a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.body)
	}
	c := http.Client{Transport: &http.Transport{DialContext: p.pipe.dial, DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.header.Get("Location"), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || back.Host != "127.0.0.1:8410" {
		t.Fatalf("back to %v, %v", back, err)
	}
	return back.RequestURI()
}

// TestAPersonOfAProviderUsesThePage logs in at one gateway and continues at another, until the ID token is over.
func TestAPersonOfAProviderUsesThePage(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		node := w.drive()
		p := newIssuer(w.T)
		one, two := w.gateway(p.admits(w.T)), w.gateway(p.admits(w.T))
		defer one.stop()
		defer two.stop()
		var b browser
		if a := b.get(one, http.MethodGet, "/"); a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), `href="/login"`) || !strings.Contains(string(a.body), "<form") {
			t.Fatalf("the door: %d %s", a.status, a.body)
		}
		back := p.atProvider(w.T, b.get(one, http.MethodGet, "/login"))
		a := b.get(two, http.MethodGet, back, with("Sec-Fetch-Site", "cross-site"))
		if a.status != http.StatusSeeOther || a.header.Get("Location") != "/" || len(b.cookies) != 1 {
			t.Fatalf("back: %d %v %s", a.status, a.header, a.body)
		}
		c := b.cookies["turnlog_session_8410"]
		if c == nil || !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteLaxMode || c.MaxAge < 3500 || c.MaxAge > 3600 || strings.Contains(c.Value, "ada") {
			t.Errorf("cookie %+v", c)
		}
		var me struct{ Name, Role string }
		if b.get(one, http.MethodGet, "/api/me").in(t, &me); me.Name != "ada@example.com" || me.Role != "user" {
			t.Errorf("%+v", me)
		}
		keep := func(r *http.Request) {
			r.Header.Del("Authorization")
			r.AddCookie(c)
		}
		id := one.open(map[string]any{"text": "hi"}, keep)
		w.Until(id, events.KindParked)
		node.Drain(w.T)
		if a := one.ok(http.MethodGet, "/api/sessions/"+string(id)+"/entries", nil, keep); !strings.Contains(string(a.body), `"by":"ada@example.com"`) {
			t.Errorf("the journal does not say who asked: %s", a.body)
		}
		if a := b.get(one, http.MethodPost, "/api/sessions/"+string(id)+"/close", with("Sec-Fetch-Site", "cross-site")); a.status != http.StatusForbidden {
			t.Errorf("a page of another site: %d", a.status)
		}
		f, err := two.follow(id, "", keep)
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		began := time.Now()
		for err == nil {
			_, err = f.next()
		}
		if took := time.Since(began); took < 59*time.Minute || took > time.Hour {
			t.Errorf("the stream ended after %s: %v", took, err)
		}
		if a := b.get(one, http.MethodGet, "/api/me"); a.status != http.StatusUnauthorized {
			t.Errorf("after the ID token: %d %s", a.status, a.body)
		}
		b.get(one, http.MethodGet, p.atProvider(w.T, b.get(one, http.MethodGet, "/login")))
		if a := b.get(two, http.MethodGet, "/login"); a.header.Get("Location") != "/" {
			t.Errorf("a login of who is known: %d %v", a.status, a.header)
		}
		if a := b.get(two, http.MethodPost, "/logout"); a.status != http.StatusSeeOther || len(b.cookies) != 0 {
			t.Errorf("logout: %d %v", a.status, b.cookies)
		}
	})
}

func unsigned(_ *issuer, claims map[string]any) string {
	body, _ := json.Marshal(claims) // texts and numbers
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(body) + "."
}

func ofSecret(p *issuer, claims map[string]any) string {
	return p.Signed(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(issuertest.Secret)}, claims)
}

func ofAnother(p *issuer, claims map[string]any) string {
	return p.Another().Sign(claims)
}

// proof is one fault in a provider's answers.
type proof struct {
	claims map[string]any
	sign   func(*issuer, map[string]any) string
	status int
}

func proofs() map[string]proof {
	const refused, noRole = http.StatusUnauthorized, http.StatusForbidden
	return map[string]proof{
		"expired":              {map[string]any{"exp": time.Now().Add(-time.Second).Unix()}, nil, refused},
		"for others":           {map[string]any{"aud": []string{"another"}}, nil, refused},
		"of another issuer":    {map[string]any{"iss": "http://127.0.0.1:9001"}, nil, refused},
		"not yet":              {map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, nil, refused},
		"alg none":             {nil, unsigned, refused},
		"a shared secret":      {nil, ofSecret, refused},
		"another key":          {nil, ofAnother, refused},
		"an unverified email":  {map[string]any{"email_verified": false}, nil, noRole},
		"no word of the email": {map[string]any{"email_verified": nil}, nil, noRole},
		"no name":              {map[string]any{"email": ""}, nil, noRole},
		"no role":              {map[string]any{"realm_access": nil}, nil, noRole},
		"a role as text":       {map[string]any{"realm_access": map[string]any{"roles": "writers"}}, nil, http.StatusOK},
	}
}

// TestALoginThatProvesNothingIsRefused has a provider, or an impostor, send browsers back with all kinds of invalid tokens.
func TestALoginThatProvesNothingIsRefused(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		p := newIssuer(w.T)
		g := w.gateway(p.admits(w.T))
		defer g.stop()
		sign := p.Sign
		all := proofs()
		all["another nonce"] = proof{map[string]any{"nonce": "another"}, nil, http.StatusUnauthorized}
		all["no nonce"] = proof{map[string]any{"nonce": nil}, nil, http.StatusUnauthorized}
		for name, row := range all {
			p.Claims = func(c map[string]any) {
				maps.Copy(c, row.claims)
			}
			if p.Sign = sign; row.sign != nil {
				p.Sign = func(c map[string]any) string { return row.sign(p, c) }
			}
			<-time.After(time.Minute) // missing keys may be requested again after this
			var b browser
			a := b.get(g, http.MethodGet, p.atProvider(w.T, b.get(g, http.MethodGet, "/login")))
			if row.status == http.StatusOK {
				if a.status != http.StatusSeeOther || b.cookies["turnlog_session_8410"] == nil {
					t.Errorf("%s: %d %s", name, a.status, a.body)
				}
				continue
			}
			if a.status != row.status || len(b.cookies) != 0 || !strings.Contains(string(a.body), `href="/login"`) {
				t.Errorf("%s: %d %v %s", name, a.status, b.cookies, a.body)
			}
		}
		p.Sign, p.Claims = sign, func(map[string]any) {}

		// The state belongs to one browser, and a code works once.
		var b, other browser
		back := p.atProvider(w.T, b.get(g, http.MethodGet, "/login"))
		if a := other.get(g, http.MethodGet, back); a.status != http.StatusUnauthorized || len(other.cookies) != 0 {
			t.Errorf("another browser: %d %v", a.status, other.cookies)
		}
		kept := b.cookies["turnlog_login_8410"]
		if a := b.get(g, http.MethodGet, strings.Replace(back, "state=", "state=x", 1)); a.status != http.StatusUnauthorized {
			t.Errorf("another state: %d", a.status)
		}
		if a := b.get(g, http.MethodGet, back); a.status != http.StatusSeeOther {
			t.Errorf("back: %d %s", a.status, a.body)
		}
		again := browser{map[string]*http.Cookie{kept.Name: kept}}
		if a := again.get(g, http.MethodGet, back); a.status != http.StatusUnauthorized || len(again.cookies) != 0 {
			t.Errorf("the code again: %d %v", a.status, again.cookies)
		}
		// No cookie passes as another one, or under another key.
		swapped := browser{map[string]*http.Cookie{"turnlog_session_8410": {Name: "turnlog_session_8410", Value: kept.Value}}}
		if a := swapped.get(g, http.MethodGet, "/api/me"); a.status != http.StatusUnauthorized {
			t.Errorf("the cookie of a login as that of a session: %d", a.status)
		}
		elsewhere := w.gateway(p.admits(w.T, "key: key", "key: secret"))
		defer elsewhere.stop()
		if a := b.get(elsewhere, http.MethodGet, "/api/me"); a.status != http.StatusUnauthorized {
			t.Errorf("a gateway with another key: %d", a.status)
		}
		refused := p.atProvider(w.T, other.get(g, http.MethodGet, "/login"))
		at := strings.Index(refused, "state=")
		if a := other.get(g, http.MethodGet, "/login/callback?error=access_denied&error_description=%3Cb%3E&"+refused[at:]); a.status != http.StatusUnauthorized ||
			!strings.Contains(string(a.body), "access_denied") || strings.Contains(string(a.body), "<b>") {
			t.Errorf("the provider refuses: %d %s", a.status, a.body)
		}
	})
}

// TestClaimsThatAreNotInTheIDTokenAreAskedFor logs in at a provider whose ID tokens name only the person's ID.
func TestClaimsThatAreNotInTheIDTokenAreAskedFor(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		p := newIssuer(w.T)
		p.Thin = true
		g := w.gateway(p.admits(w.T))
		defer g.stop()
		began := time.Now()
		for range 10 {
			var b browser
			b.get(g, http.MethodGet, p.atProvider(w.T, b.get(g, http.MethodGet, "/login")))
			var me struct{ Name, Role string }
			if b.get(g, http.MethodGet, "/api/me").in(t, &me); me.Name != "ada@example.com" || me.Role != "user" {
				t.Fatalf("%+v", me)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("ten logins took %s: they wait for each other", took)
		}
		for _, row := range []struct {
			info map[string]any
			says string
		}{
			{map[string]any{"sub": "2"}, "another person"},
			{map[string]any{"email_verified": false}, "has not verified"},
			{map[string]any{"email": nil}, "did not send claim email"},
			{map[string]any{"realm_access": nil}, "no role"},
		} {
			p.Info = func(c map[string]any) { maps.Copy(c, row.info) }
			var b browser
			a := b.get(g, http.MethodGet, p.atProvider(w.T, b.get(g, http.MethodGet, "/login")))
			if a.status < http.StatusBadRequest || len(b.cookies) != 0 || !strings.Contains(string(a.body), row.says) {
				t.Errorf("%v: %d %v %s", row.info, a.status, b.cookies, a.body)
			}
		}
	})
}

// TestALoginBeginsWhereItEnds starts a login at another address of the gateway, such as the one that the command prints.
func TestALoginBeginsWhereItEnds(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		p := newIssuer(w.T)
		g := w.gateway(p.admits(w.T))
		defer g.stop()
		var b browser
		elsewhere := func(r *http.Request) { r.Host = "localhost:8410" }
		a := b.get(g, http.MethodGet, "/login", elsewhere)
		at, found := strings.CutPrefix(a.header.Get("Location"), "http://127.0.0.1:8410/login?")
		if a.status != http.StatusSeeOther || !found || len(b.cookies) != 0 {
			t.Fatalf("%d %v", a.status, a.header)
		}
		p.atProvider(w.T, b.get(g, http.MethodGet, "/login?"+at, elsewhere)) // behind a proxy that sets the host
	})
}

// TestATokenOfAProviderIsOne sends tokens to the API.
func TestATokenOfAProviderIsOne(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		p := newIssuer(w.T)
		p.Down.Store(true)
		g := w.gateway(p.admits(w.T))
		defer g.stop()
		bearer := func(token string) answer {
			return g.do(http.MethodGet, "/api/me", nil, with("Authorization", "Bearer "+token))
		}
		a := bearer(p.Sign(p.Ada(nil)))
		a.problem(t, http.StatusServiceUnavailable, "no_provider")
		if a.header.Get("Retry-After") == "" {
			t.Error("there is no Retry-After")
		}
		var b browser
		if a := b.get(g, http.MethodGet, "/login"); a.status != http.StatusServiceUnavailable || strings.Count(string(a.body), "does not answer") != 1 {
			t.Errorf("login: %d %s", a.status, a.body)
		}
		g.ok(http.MethodGet, "/api/me", nil, as("ops"))
		p.Down.Store(false)
		<-time.After(time.Minute)
		if a := bearer(p.Sign(p.Ada(nil))); a.status != http.StatusOK {
			t.Fatalf("the provider is back: %d %s", a.status, a.body)
		}
		for name, row := range proofs() {
			<-time.After(time.Minute)
			sign := p.Sign
			if row.sign != nil {
				sign = func(c map[string]any) string { return row.sign(p, c) }
			}
			if a := bearer(sign(p.Ada(row.claims))); a.status != row.status {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
		}
		for _, text := range []string{"a.b.c", "..", strings.Repeat("x.", 2) + strings.Repeat("x", 20_000)} {
			if a := bearer(text); a.status != http.StatusUnauthorized {
				t.Errorf("%.20s: %d %s", text, a.status, a.body)
			}
		}

		// A new key is valid at once, and keys stay valid while the provider is down.
		old := p.Sign(p.Ada(nil))
		p.Rotate("k2")
		if a := bearer(p.Sign(p.Ada(nil))); a.status != http.StatusOK {
			t.Errorf("after another key: %d %s", a.status, a.body)
		}
		if a := bearer(old); a.status != http.StatusUnauthorized {
			t.Errorf("with the key of before: %d", a.status)
		}
		<-time.After(time.Minute)
		p.Down.Store(true)
		if a := bearer(p.Sign(p.Ada(nil))); a.status != http.StatusOK {
			t.Errorf("while the provider is down: %d %s", a.status, a.body)
		}
		p.Rotate("k3")
		bearer(p.Sign(p.Ada(nil))).problem(t, http.StatusServiceUnavailable, "no_provider")
		p.Down.Store(false)

		// Tokens with unknown keys do not each cause a request to the provider.
		<-time.After(time.Minute)
		before, began := p.Asks.Load(), time.Now()
		for range 30 {
			bearer(ofAnother(p, p.Ada(nil)))
		}
		if n, most := p.Asks.Load()-before, int64(time.Since(began)/time.Second)+6; n > most {
			t.Errorf("%d requests for keys in %s", n, time.Since(began))
		}
	})
}

// TestTheAddressAndTheNameAreConfigured has browsers reach gateways over TLS, as people whose names are not email
// addresses.
func TestTheAddressAndTheNameAreConfigured(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		p := newIssuer(w.T)
		g := w.gateway(p.admits(w.T, "http://127.0.0.1:8410", "https://127.0.0.1:8410", "  key: key", "  key: key\n  audience: api\n  name: sub", "role: user", "role: viewer"))
		defer g.stop()
		var b browser
		b.get(g, http.MethodGet, p.atProvider(w.T, b.get(g, http.MethodGet, "/login")))
		if c := b.cookies["turnlog_session_8410"]; c == nil || !c.Secure {
			t.Errorf("cookie %+v", c)
		}
		var me struct{ Name, Role string }
		g.ok(http.MethodGet, "/api/me", nil, with("Authorization", "Bearer "+p.Sign(p.Ada(map[string]any{"aud": "api", "email_verified": false})))).in(t, &me)
		if me.Name != "1" || me.Role != "viewer" {
			t.Errorf("%+v", me)
		}
		if a := g.do(http.MethodGet, "/api/me", nil, with("Authorization", "Bearer "+p.Sign(p.Ada(nil)))); a.status != http.StatusUnauthorized {
			t.Errorf("a token for the page: %d", a.status)
		}
	})
}

// TestAPersonSendsNoMoreThanTheLimits sends too many requests, and has too many streams open.
func TestAPersonSendsNoMoreThanTheLimits(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(withPeople(t), func(c *gateway.Config) { c.Limits = gateway.Limits{Requests: 2, Open: 3} })
		defer g.stop()
		id := g.open(map[string]any{"text": "hi"}, as("ada"))
		w.Until(id, events.KindParked)
		<-time.After(time.Minute)
		for i := range 5 {
			a := g.do(http.MethodGet, "/api/me", nil, as("ada"))
			if i < 4 && a.status != http.StatusOK {
				t.Errorf("request %d: %d %s", i, a.status, a.body)
			}
			if i == 4 {
				a.problem(t, http.StatusTooManyRequests, "too_many_requests")
				if a.header.Get("Retry-After") != "1" {
					t.Errorf("%v", a.header)
				}
			}
		}
		g.ok(http.MethodGet, "/api/me", nil, as("bob"))
		<-time.After(time.Minute)
		var feeds []*feed
		for range 3 {
			f, err := g.follow(id, "", as("ada"))
			if err != nil || f.resp.StatusCode != http.StatusOK {
				t.Fatal(err, f)
			}
			feeds = append(feeds, f)
		}
		a := g.do(http.MethodPost, "/v1/responses", map[string]any{"input": "hi"}, as("ada"))
		var failed struct{ Error struct{ Type, Code string } }
		if a.in(t, &failed); a.status != http.StatusTooManyRequests || failed.Error.Type != "rate_limit_error" || failed.Error.Code != "too_many_open" || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		feeds[0].close()
		<-time.After(time.Minute)
		g.ok(http.MethodGet, "/api/me", nil, as("ada"))
		for _, f := range feeds[1:] {
			f.close()
			_, _ = io.Copy(io.Discard, f.resp.Body) // it is closed
		}
	})
}
