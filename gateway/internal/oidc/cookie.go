package oidc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/turnlog/turnlog/gateway/people"
)

// kind is the purpose of a cookie, and begins its name. A cookie of one kind is not accepted as another kind.
type kind string

const (
	session kind = "turnlog_session"
	begun   kind = "turnlog_login"
)

// name returns the name of a cookie. Gateways behind the address of the login share it.
func (p *Provider) name(k kind) string {
	u, err := url.Parse(p.login.URL)
	if err != nil {
		return string(k) // impossible: it was checked
	}
	return people.CookieAt(string(k), u.Host)
}

// minKey is the length of the shortest line of a file of keys.
const minKey = 32

// keysOf reads the keys of cookies. The first line encrypts cookies, and every line can decrypt them, so that a key can be replaced.
func keysOf(file string) (keys [][]byte, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		if len(line) < minKey {
			return nil, fmt.Errorf("key: %s: %d characters can be guessed: use %d or more", file, len(line), minKey)
		}
		sum := sha256.Sum256([]byte(line))
		keys = append(keys, sum[:])
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("key: %s is empty: fill it with \"head -c 32 /dev/urandom | base64\"", file)
	}
	return keys, nil
}

// put stores values in a cookie until a time.
func (p *Provider) put(w http.ResponseWriter, k kind, values any, until time.Time) error {
	enc, err := jose.NewEncrypter(jose.A256GCM, jose.Recipient{Algorithm: jose.DIRECT, Key: p.keys[0]}, nil)
	if err != nil {
		return fmt.Errorf("encrypt a cookie: %w", err)
	}
	claims := jwt.Claims{Audience: jwt.Audience{string(k)}, Issuer: p.login.Issuer, Expiry: jwt.NewNumericDate(until)}
	text, err := jwt.Encrypted(enc).Claims(claims).Claims(values).Serialize()
	if err != nil {
		return fmt.Errorf("encrypt a cookie: %w", err)
	}
	p.set(w, k, text, int(time.Until(until).Seconds()))
	return nil
}

// set sets a cookie. A link on another site, such as the provider's, may open the gateway with it, but other requests from
// that site do not carry it.
func (p *Provider) set(w http.ResponseWriter, k kind, text string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: p.name(k), Value: text, Path: "/", HttpOnly: true, Secure: strings.HasPrefix(p.login.URL, "https:"), SameSite: http.SameSiteLaxMode, MaxAge: age,
	})
}

// ErrNoCookie is returned for a browser without a valid cookie.
var ErrNoCookie = errors.New("not a cookie of this gateway")

// take reads the values of a cookie and when it expires.
func (p *Provider) take(r *http.Request, k kind, values any) (until time.Time, err error) {
	c, err := r.Cookie(p.name(k))
	if err != nil {
		return until, ErrNoCookie
	}
	t, err := jwt.ParseEncrypted(c.Value, []jose.KeyAlgorithm{jose.DIRECT}, []jose.ContentEncryption{jose.A256GCM})
	if err != nil {
		return until, ErrNoCookie
	}
	for _, key := range p.keys {
		var claims jwt.Claims
		if t.Claims(key, &claims, values) == nil &&
			claims.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{string(k)}, Issuer: p.login.Issuer}, 0) == nil && time.Now().Before(claims.Expiry.Time()) {
			return claims.Expiry.Time(), nil
		}
	}
	return until, ErrNoCookie
}
