package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
)

const (
	issuerURL    = "http://127.0.0.1:9000"
	clientSecret = "the-secret-of-the-client-of-32-or-more"
)

// issuer is a provider of OpenID Connect.
type issuer struct {
	t    testing.TB
	pipe *pipes
	key  jose.JSONWebKey
	down atomic.Bool
	asks atomic.Int64 // for its keys

	codes  map[string]url.Values // what each code was asked with
	claims func(jwt map[string]any)
	sign   func(claims map[string]any) string
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	p := &issuer{t: t, pipe: newPipes(), codes: map[string]url.Values{}, claims: func(map[string]any) {}}
	p.sign = func(c map[string]any) string { return p.signed(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, c) }
	p.rotate("k1")
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.json(w, map[string]any{
			"issuer": issuerURL, "authorization_endpoint": issuerURL + "/authorize", "token_endpoint": issuerURL + "/token", "jwks_uri": issuerURL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.asks.Add(1)
		p.json(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.key.Public()}})
	})
	mux.HandleFunc("/authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}), ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(p.pipe)
	}()
	t.Cleanup(func() { _ = srv.Close(); <-ended })
	return p
}

func (p *issuer) json(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Error(err)
	}
}

// rotate has the provider sign with a new key.
func (p *issuer) rotate(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.key = jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"}
}

func (p *issuer) signed(key jose.SigningKey, claims map[string]any) string {
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

// ada is what the provider says about a person, with changes.
func ada(change map[string]any) map[string]any {
	c := map[string]any{
		"iss": issuerURL, "aud": "turnlog", "sub": "1", "email": "ada@example.com", "email_verified": true, "iat": time.Now().Unix(),
		"exp": time.Now().Add(time.Hour).Unix(), "realm_access": map[string]any{"roles": []string{"other", "writers"}},
	}
	maps.Copy(c, change)
	return c
}

func (p *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := "code-" + strconv.Itoa(len(p.codes)+1)
	p.codes[code] = q
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"state": {q.Get("state")}, "code": {code}}.Encode(), http.StatusSeeOther)
}

func (p *issuer) token(w http.ResponseWriter, r *http.Request) {
	q, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	id, secret, _ := r.BasicAuth()
	switch {
	case !ok, q.Get("code_challenge_method") != "S256", q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]),
		id != "turnlog", secret != clientSecret, r.PostFormValue("redirect_uri") != q.Get("redirect_uri"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error": "invalid_grant"}`))
		return
	}
	claims := ada(map[string]any{"nonce": q.Get("nonce")})
	p.claims(claims)
	p.json(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": p.sign(claims)})
}

// admits has a gateway admit people of the provider, and one with a token.
func (p *issuer) admits(t testing.TB, more ...string) func(*gateway.Config) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"key": strings.Repeat("k", 44) + "\n" + strings.Repeat("j", 44), "secret": clientSecret + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entry, err := people.Entry(people.Person{Name: "ops", Role: people.Operator}, tokenOf("ops"))
	if err != nil {
		t.Fatal(err)
	}
	file := entry + `oidc:
  issuer: ` + issuerURL + `
  client: turnlog
  secret: secret
  key: key
  url: http://127.0.0.1:8410
  claim: realm_access.roles
  roles:
    - {value: reviewers, role: approver, agents: ["review-*"]}
    - {value: writers, role: user}
`
	for i := 0; i < len(more); i += 2 {
		file = strings.Replace(file, more[i], more[i+1], 1)
	}
	return func(c *gateway.Config) {
		c.Access = people.Access{
			People: []byte(file), Dir: dir, Loopback: true, HTTP: &http.Transport{DialContext: p.pipe.dial, DisableKeepAlives: true},
		}
	}
}
