package people

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Access configures who may use a gateway.
type Access struct {
	Token    string // the token of a single operator; "": none
	Operator string // the operator's name
	People   []byte // the file of people; nil: none
	Dir      string // the directory of the files that People names
	Open     bool   // everyone who reaches the address is the operator

	Loopback bool     // only programs on this machine can reach the address
	Hosts    []string // host names that clients use, in addition to IP addresses and localhost

	// HTTP is the transport to the OpenID Connect provider; nil: http.DefaultTransport.
	HTTP http.RoundTripper

	directory *Directory
}

// Login returns the login with OpenID Connect; nil: there is none.
func (a *Access) Login() *Login {
	if a.directory == nil {
		return nil
	}
	return a.directory.login
}

// Tokens reports whether anyone has a gateway token.
func (a *Access) Tokens() bool { return a.directory != nil && len(a.directory.people) > 0 }

// ErrAccess is returned by Check for an Access that would admit no one, or everyone by mistake.
var ErrAccess = errors.New("gateway: access")

// Check checks that a admits people, but not everyone by mistake, and reads the file of people.
func (a *Access) Check() (err error) {
	switch {
	case a.People != nil && (a.Token != "" || a.Open):
		return errors.Join(ErrAccess, errors.New("people, a token and open access exclude each other"))
	case a.People != nil:
		a.directory, err = Parse(a.People)
		return err
	case a.Open:
		return nil
	case a.Token == "":
		return errors.Join(ErrAccess, errors.New("give people or a token"))
	case len(a.Token) < minToken:
		return errors.Join(ErrAccess, fmt.Errorf("a token of %d characters can be guessed: use %d or more", len(a.Token), minToken))
	}
	a.directory = Alone(a.Operator, a.Token)
	return nil
}

// minToken is the minimum length of the token of a single operator.
const minToken = 16

// Cookie returns the name of the cookie with a browser's token for a host. Browsers send a cookie to all ports of a
// host, so the name contains the port: gateways on one machine have separate cookies, and gateways behind one address
// share one.
func Cookie(host string) string { return CookieAt("turnlog_token", host) }

// CookieAt adds the port of a host to the name of a cookie.
func CookieAt(name, host string) string {
	if _, port, err := net.SplitHostPort(host); err == nil && port != "" {
		name += "_" + port
	}
	return name
}

// ErrNoToken is returned by Identify for a request without a token.
var ErrNoToken = errors.New("no token")

// Serves reports whether requests for a host are for the gateway. This stops DNS rebinding: another site can make its
// name resolve to this machine, but the requests of its pages still have that name.
func (a *Access) Serves(host string) bool {
	name := Hostname(host)
	_, err := netip.ParseAddr(name)
	switch {
	case err == nil, name == "localhost", slices.Contains(a.Hosts, name):
		return true
	}
	if l := a.Login(); l != nil && l.host() == name { // the address that the provider redirects to
		return true
	}
	return len(a.Hosts) == 0 && !a.Loopback && !a.Open // a token protects it, and browsers have no cookie for another name
}

// Hostname returns a host in lower case, without its port.
func Hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// Identify returns who sent a request. The error is ErrNoToken or ErrUnknown.
func (a *Access) Identify(r *http.Request) (*Person, error) {
	if a.Open {
		return &Person{Name: a.Operator, Role: Operator}, nil
	}
	token, given := a.tokenOf(r)
	p, err := a.directory.Find(token)
	if err != nil && !given {
		return nil, ErrNoToken
	}
	return p, err
}

// tokenOf returns the token of a request, and whether it has one. A link on another site cannot switch a logged-in
// browser to another person.
func (a *Access) tokenOf(r *http.Request) (string, bool) {
	if token, ok := Bearer(r); ok {
		return token, true
	}
	c, err := r.Cookie(Cookie(r.Host))
	keeps := linked(r) && err == nil && a.knows(c.Value)
	token, entering := offered(r)
	switch {
	case entering && !keeps:
		return token, true
	case err == nil:
		return c.Value, true
	}
	return "", false
}

// Bearer returns the bearer token in the Authorization header, and whether there is such a header. The token is "" for
// another scheme.
func Bearer(r *http.Request) (string, bool) {
	header := r.Header.Get("Authorization")
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	return strings.TrimSpace(token), header != ""
}

// maxForm limits the size of the token form.
const maxForm = 4 << 10

// offered returns the token that a browser logs in with: from the query of the printed address, or from the token form,
// which keeps it out of addresses.
func offered(r *http.Request) (token string, entering bool) {
	switch {
	case r.URL.Path != "/":
	case r.Method == http.MethodPost:
		if r.PostForm == nil {
			r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
		}
		return r.PostFormValue("token"), true
	case r.Method == http.MethodGet && r.URL.Query().Has("token"):
		return r.URL.Query().Get("token"), true
	}
	return "", false
}

// knows reports whether a token belongs to a person.
func (a *Access) knows(token string) bool {
	if a.directory == nil {
		return false
	}
	_, err := a.directory.Find(token)
	return err == nil
}

// linked reports whether the request came from a page of another site.
func linked(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// Enter handles a login with a token: it stores a valid token in a cookie, and redirects to an address without the
// token. It reports whether the request was such a login.
func (a *Access) Enter(w http.ResponseWriter, r *http.Request) bool {
	token, entering := offered(r)
	if !entering {
		return false
	}
	if counts, _ := a.tokenOf(r); counts == token && a.knows(token) {
		http.SetCookie(w, &http.Cookie{
			Name: Cookie(r.Host), Value: token, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
			MaxAge: int((30 * 24 * time.Hour).Seconds()),
		})
	}
	http.Redirect(w, r, (&url.URL{Path: "/"}).String(), http.StatusSeeOther)
	return true
}

// Leave deletes the browser's cookie with the token.
func Leave(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: Cookie(r.Host), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
}
