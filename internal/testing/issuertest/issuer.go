// Package issuertest is an OpenID Connect provider for tests: it has keys, signs tokens, and logs people in with codes and PKCE.
//
// It is an http.Handler, so that a test can serve it without a network, or at a port for a browser.
package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Secret is the secret of the client, whose ID is turnlog.
const Secret = "the-secret-of-the-client-of-32-or-more"

// Issuer is a provider.
type Issuer struct {
	URL string
	Key jose.JSONWebKey

	// Thin leaves claims about a person out of ID tokens. They are at the userinfo endpoint, after Info has changed them.
	Thin bool
	Info func(claims map[string]any)

	// Form shows a form in which people give their address and their role. Without it, everyone is Ada, a writer.
	Form bool

	Down   atomic.Bool
	Asks   atomic.Int64 // number of requests for its keys
	Claims func(jwt map[string]any)
	Sign   func(claims map[string]any) string

	t   testing.TB
	mux *http.ServeMux

	mu    sync.Mutex
	codes map[string]login
	infos map[string]map[string]any // by access token
}

// login is the login that a code represents.
type login struct {
	asked  url.Values
	claims map[string]any
}

// New returns a provider with an address.
func New(t testing.TB, address string) *Issuer {
	t.Helper()
	p := &Issuer{URL: address, t: t, mux: http.NewServeMux(), codes: map[string]login{}, infos: map[string]map[string]any{}}
	p.Claims, p.Info = func(map[string]any) {}, func(map[string]any) {}
	p.Sign = func(c map[string]any) string { return p.Signed(jose.SigningKey{Algorithm: jose.ES256, Key: p.Key}, c) }
	p.Rotate("k1")
	p.mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.json(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"userinfo_endpoint":                     p.URL + "/userinfo",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	p.mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.Asks.Add(1)
		p.json(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.Key.Public()}})
	})
	p.mux.HandleFunc("/authorize", p.authorize)
	p.mux.HandleFunc("POST /token", p.token)
	p.mux.HandleFunc("/userinfo", p.info)
	return p
}

// ServeHTTP serves a request.
func (p *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.Down.Load() {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	p.mux.ServeHTTP(w, r)
}

func (p *Issuer) json(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Error(err)
	}
}

// Rotate makes the provider sign with a new key.
func (p *Issuer) Rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Key = jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"}
}

// Signed returns a token that is signed with a key.
func (p *Issuer) Signed(key jose.SigningKey, claims map[string]any) string {
	s, err := jose.NewSigner(key, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// Another returns a provider that claims to be this one, with a different key of the same name.
func (p *Issuer) Another() *Issuer {
	other := New(p.t, p.URL)
	other.Rotate(p.Key.KeyID)
	return other
}

// Ada returns the claims about a person, with changes.
func (p *Issuer) Ada(change map[string]any) map[string]any {
	c := map[string]any{
		"iss": p.URL, "aud": "turnlog", "sub": "1", "email": "ada@example.com", "email_verified": true, "iat": time.Now().Unix(),
		"exp": time.Now().Add(time.Hour).Unix(), "realm_access": map[string]any{"roles": []string{"other", "writers"}},
	}
	maps.Copy(c, change)
	return c
}

// form is the page on which people say who they are.
const form = `<!doctype html><html lang="en"><title>Provider</title><main><h1>Provider</h1><form method="post" action="/authorize?{{.}}">
<label>Address <input name="email"></label><label>Role <input name="role"></label><button>Continue</button></form></main></html>`

func (p *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if p.Form && r.Method == http.MethodGet {
		if err := template.Must(template.New("form").Parse(form)).Execute(w, template.URL(r.URL.RawQuery)); err != nil { //nolint:gosec // it is a query
			p.t.Error(err)
		}
		return
	}
	var change map[string]any
	if p.Form {
		email := r.PostFormValue("email")
		change = map[string]any{"sub": email, "email": email, "realm_access": map[string]any{"roles": []string{r.PostFormValue("role")}}}
	}
	p.mu.Lock()
	code := "code-" + strconv.Itoa(len(p.codes)+1)
	p.codes[code] = login{q, p.Ada(change)}
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"state": {q.Get("state")}, "code": {code}}.Encode(), http.StatusSeeOther)
}

func (p *Issuer) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	l, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	p.mu.Unlock()
	q := l.asked
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	id, secret, _ := r.BasicAuth()
	switch {
	case !ok, q.Get("code_challenge_method") != "S256", q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]),
		id != "turnlog", secret != Secret, r.PostFormValue("redirect_uri") != q.Get("redirect_uri"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error": "invalid_grant"}`))
		return
	}
	l.claims["nonce"] = q.Get("nonce")
	p.Claims(l.claims)
	access := "access-" + r.PostFormValue("code")
	p.mu.Lock()
	p.infos[access] = maps.Clone(l.claims)
	p.mu.Unlock()
	if p.Thin {
		maps.DeleteFunc(l.claims, func(name string, _ any) bool {
			return !slices.Contains([]string{"iss", "aud", "sub", "iat", "exp", "nonce"}, name)
		})
	}
	p.json(w, map[string]any{"access_token": access, "token_type": "Bearer", "id_token": p.Sign(l.claims)})
}

// info answers a request for the claims about the person with an access token.
func (p *Issuer) info(w http.ResponseWriter, r *http.Request) {
	access, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	claims, ok := p.infos[access]
	p.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	claims = maps.Clone(claims)
	p.Info(claims)
	p.json(w, claims)
}
