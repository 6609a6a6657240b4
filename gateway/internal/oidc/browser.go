package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/turnlog/turnlog/gateway/people"
)

// Callback is the path to which the provider sends browsers back.
const Callback = "/login/callback"

// loginTime is how long a person may take at the provider.
const loginTime = 10 * time.Minute

// attempt is a login that has begun.
type attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Begin sends a browser to the provider. A browser at another address of the gateway, such as that of one instance, goes to the
// configured address first, since the provider sends it back there and cookies belong to an address.
func (p *Provider) Begin(w http.ResponseWriter, r *http.Request) error {
	at, _ := url.Parse(p.login.URL) // it was checked
	if !strings.EqualFold(r.Host, at.Host) && r.URL.RawQuery == "" {
		http.Redirect(w, r, at.JoinPath(r.URL.Path).String()+"?here", http.StatusSeeOther) // the query ends this if a proxy replaces the host
		return nil
	}
	d, err := p.discover(r.Context())
	if err != nil {
		return err
	}
	a := attempt{rand.Text(), rand.Text(), oauth2.GenerateVerifier()}
	if err := p.put(w, begun, a, time.Now().Add(loginTime)); err != nil {
		return err
	}
	http.Redirect(w, r, d.oauth.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), http.StatusSeeOther)
	return nil
}

// End completes a login when the provider sends the browser back: it sets the cookie of the session and sends the browser to
// the page.
func (p *Provider) End(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var a attempt
	if _, err := p.take(r, begun, &a); err != nil || subtle.ConstantTimeCompare([]byte(a.State), []byte(q.Get("state"))) != 1 {
		return fmt.Errorf("%w: this login started in another browser or took longer than %s", ErrRefused, loginTime)
	}
	p.set(w, begun, "", -1) // it works once
	if why := q.Get("error"); why != "" {
		return fmt.Errorf("%w: the provider returned %q", ErrRefused, why+" "+q.Get("error_description"))
	}
	k, until, err := p.exchange(r.Context(), a, q.Get("code"))
	if err != nil {
		return err
	}
	if _, err := p.login.Person(k.Name, k.Values, until); err != nil {
		return err
	}
	if err := p.put(w, session, k, until); err != nil {
		return err
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// exchange gets the ID token for a code. It returns the person that the token is about and when it expires.
func (p *Provider) exchange(ctx context.Context, a attempt, code string) (k known, until time.Time, err error) {
	d, err := p.discover(ctx)
	if err != nil {
		return k, until, err
	}
	got, err := d.oauth.Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(a.Verifier))
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case answered:
		return k, until, fmt.Errorf("%w: the provider rejected the code: %q", ErrRefused, refused.ErrorCode)
	case err != nil:
		return k, until, down(err)
	}
	token, _ := got.Extra("id_token").(string)
	t, err := p.verify(ctx, d, token, p.login.Client)
	if err != nil {
		return k, until, err
	}
	if subtle.ConstantTimeCompare([]byte(t.Nonce), []byte(a.Nonce)) != 1 {
		return k, until, fmt.Errorf("%w: the ID token belongs to another login", ErrRefused)
	}
	c, err := p.complete(ctx, d, t, got)
	if err != nil {
		return k, until, err
	}
	k, err = p.known(c)
	return k, t.Expiry, err
}

// complete returns the claims of an ID token. If it lacks one that the gateway needs, it adds those of the userinfo
// endpoint: some providers put only the person's ID into ID tokens.
func (p *Provider) complete(ctx context.Context, d *discovered, t *oidc.IDToken, access *oauth2.Token) (c claims, err error) {
	if err := t.Claims(&c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if !p.lacks(c) || d.about.UserInfoEndpoint() == "" {
		return c, nil
	}
	info, err := d.about.UserInfo(oidc.ClientContext(ctx, p.client), oauth2.StaticTokenSource(access))
	if err != nil {
		return nil, down(err)
	}
	if info.Subject != t.Subject {
		return nil, fmt.Errorf("%w: the userinfo response is about another person", ErrRefused)
	}
	var more claims
	if err := info.Claims(&more); err != nil {
		return nil, down(err)
	}
	maps.Copy(c, more)
	return c, nil
}

// Browser returns the person of a browser that has logged in. It applies the current roles.
func (p *Provider) Browser(r *http.Request) (*people.Person, error) {
	var k known
	until, err := p.take(r, session, &k)
	if err != nil {
		return nil, err
	}
	return p.login.Person(k.Name, k.Values, until)
}

// Leave ends the session of a browser.
func (p *Provider) Leave(w http.ResponseWriter) { p.set(w, session, "", -1) }
