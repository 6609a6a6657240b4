package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/turnlog/turnlog/gateway/people"
)

// Provider is an OpenID Connect provider, as gateways use it.
type Provider struct {
	login  people.Login
	secret string
	keys   [][]byte // they encrypt cookies
	client *http.Client

	found  atomic.Pointer[discovered] // nil: not yet
	asking singleflight.Group
}

// discovered is the result of the provider's discovery.
type discovered struct {
	about *oidc.Provider
	oauth oauth2.Config
	keys  oidc.KeySet
}

var (
	// ErrDown is returned if the provider does not answer, or gives an invalid answer.
	ErrDown = errors.New("the OpenID provider does not answer")

	// ErrRefused is returned for a token or a login that proves nothing.
	ErrRefused = errors.New("refused")
)

// Limits of requests to the provider.
const (
	patience = 10 * time.Second // for one answer
	maxBody  = 1 << 20          // bytes of an answer
	perTime  = time.Second      // between requests without a token, for keys or about the provider: any client can name an unknown key
	burst    = 5
)

// New returns a provider. It reads the files that login names; relative names are below dir. It sends no request to the
// provider, so gateways can start without it.
func New(login people.Login, dir string, through http.RoundTripper) (*Provider, error) {
	in := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	if through == nil {
		through = http.DefaultTransport
	}
	p := &Provider{login: login}
	p.client = &http.Client{Timeout: patience, Transport: &careful{through, rate.NewLimiter(rate.Every(perTime), burst)}}
	var err error
	if p.keys, err = keysOf(in(login.Key)); err != nil {
		return nil, err
	}
	if login.Secret != "" {
		text, err := os.ReadFile(in(login.Secret))
		if err != nil {
			return nil, fmt.Errorf("secret: %w", err)
		}
		p.secret = strings.TrimSpace(string(text))
	}
	return p, nil
}

// careful limits the requests to the provider and its answers. An answer that is not successful is an error.
type careful struct {
	http.RoundTripper

	gets *rate.Limiter
}

func (c *careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.Header.Get("Authorization") == "" {
		if err := c.gets.Wait(r.Context()); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDown, err)
		}
	}
	resp, err := c.RoundTripper.RoundTrip(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDown, err)
	case resp.StatusCode >= http.StatusInternalServerError || r.Method == http.MethodGet && resp.StatusCode >= http.StatusBadRequest:
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: %s: %s", ErrDown, r.URL.Redacted(), resp.Status)
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxBody)
	return resp, nil
}

// down returns the error of a request to the provider that had no valid answer.
func down(err error) error {
	if errors.Is(err, ErrDown) { // the transport already returns it
		return err
	}
	return fmt.Errorf("%w: %w", ErrDown, err)
}

// discover returns the result of the provider's discovery. It asks until the provider has answered once.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	if d := p.found.Load(); d != nil {
		return d, nil
	}
	d, err, _ := p.asking.Do("", func() (any, error) { return p.ask(context.WithoutCancel(ctx)) }) // other requests share its answer
	if err != nil {
		return nil, err //nolint:wrapcheck // ask wraps it
	}
	return d.(*discovered), nil //nolint:forcetypeassert // ask returns it
}

func (p *Provider) ask(ctx context.Context) (*discovered, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	about, err := oidc.NewProvider(ctx, p.login.Issuer)
	if err != nil {
		return nil, down(err)
	}
	var more struct {
		Keys string `json:"jwks_uri"`
	}
	if err := about.Claims(&more); err != nil {
		return nil, down(err)
	}
	back, _ := url.JoinPath(p.login.URL, Callback) // the address was checked
	d := &discovered{
		about,
		oauth2.Config{
			ClientID: p.login.Client, ClientSecret: p.secret, Endpoint: about.Endpoint(), RedirectURL: back,
			Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, p.login.Scopes...),
		},
		oidc.NewRemoteKeySet(ctx, more.Keys),
	}
	p.found.Store(d)
	return d, nil
}

// checked holds the provider's keys for one verification.
type checked struct {
	oidc.KeySet

	down error
}

// VerifySignature verifies the signature of a token. Its error tells a wrong signature from keys that could not be fetched.
func (c *checked) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := c.KeySet.VerifySignature(ctx, token)
	if errors.Is(err, ErrDown) {
		c.down = err
	}
	return payload, err //nolint:wrapcheck // the verifier wraps it
}

// verify returns the claims of a token that the provider signed for an audience. It accepts no algorithm with a shared
// secret and no unsigned token, since these prove nothing.
func (p *Provider) verify(ctx context.Context, d *discovered, token, audience string) (*oidc.IDToken, error) {
	keys := &checked{KeySet: d.keys}
	t, err := oidc.NewVerifier(p.login.Issuer, keys, &oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
	}}).Verify(ctx, token)
	switch {
	case keys.down != nil:
		return nil, keys.down
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return t, nil
}

// IsToken reports whether a text looks like a token of a provider: a JWS in three parts.
func IsToken(text string) bool { return strings.Count(text, ".") == 2 }

// Person returns the person with a token of the provider for the audience of programs.
func (p *Provider) Person(ctx context.Context, token string) (*people.Person, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	t, err := p.verify(ctx, d, token, p.login.Audience)
	if err != nil {
		return nil, err
	}
	var c claims
	if err := t.Claims(&c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	k, err := p.known(c)
	if err != nil {
		return nil, err
	}
	return p.login.Person(k.Name, k.Values, t.Expiry)
}

// known is the content of a session's cookie.
type known struct {
	Name   string   `json:"name"`
	Values []string `json:"values,omitempty"`
}

// claims are the statements of the provider about a person, by name.
type claims map[string]json.RawMessage

// known returns the claims that identify a person and decide their role. It drops the others.
func (p *Provider) known(c claims) (k known, err error) {
	_ = json.Unmarshal(c[p.login.Name], &k.Name) // "" is rejected as a name
	if v := string(c[verified]); p.login.Name == email && k.Name != "" && v != "true" && v != `"true"` {
		return known{}, fmt.Errorf("%w: the provider has not verified email address %q", people.ErrNoRole, k.Name)
	}
	k.Values = p.login.Known(valuesOf(c, p.login.Claim))
	return k, nil
}

// The claim with an email address, and the one that says whether the provider has verified it.
const (
	email    = "email"
	verified = "email_verified"
)

// lacks reports whether a claim that the gateway needs is missing.
func (p *Provider) lacks(c claims) bool {
	return c[p.login.Name] == nil || p.login.Name == email && c[verified] == nil || p.login.Claim != "" && valuesOf(c, p.login.Claim) == nil
}

// valuesOf returns the values of a claim, which may be in others: realm_access.roles, for example.
func valuesOf(c claims, name string) (values []string) {
	raw, ok := c[name]
	if outer, inner, nested := strings.Cut(name, "."); !ok && nested {
		var within claims
		_ = json.Unmarshal(c[outer], &within) // nothing is in another value
		return valuesOf(within, inner)
	}
	if json.Unmarshal(raw, &values) == nil {
		return values
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	return nil
}
