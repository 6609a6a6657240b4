package people

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// Login configures the login with an OpenID Connect provider.
type Login struct {
	Issuer   string   `yaml:"issuer"`             // the issuer URL of the provider
	Client   string   `yaml:"client"`             // the client ID of the gateways
	Secret   string   `yaml:"secret,omitempty"`   // the file with the client secret; none: a public client
	Key      string   `yaml:"key"`                // the file with the cookie keys, the same for all gateways
	URL      string   `yaml:"url"`                // the address of the gateways for browsers
	Audience string   `yaml:"audience,omitempty"` // the audience of the tokens that programs send; default: Client
	Scopes   []string `yaml:"scopes,omitempty"`   // requested in addition to openid, profile and email
	Name     string   `yaml:"name,omitempty"`     // the claim with the person's name; default: email, if verified
	Claim    string   `yaml:"claim,omitempty"`    // the claim that Roles match
	Roles    []Grant  `yaml:"roles"`              // the first match counts
}

// Grant gives a role to the people whose claim contains a value.
type Grant struct {
	Value  string   `yaml:"value"` // or Everybody
	Role   Role     `yaml:"role"`
	Agents []string `yaml:"agents,omitempty"`
}

// Everybody is the value of a Grant for everyone whom the provider authenticates.
const Everybody = "*"

// ErrNoRole is returned for a person whom the provider authenticates, but to whom no Grant applies.
var ErrNoRole = errors.New("no role")

// Person returns the person with a name and the values of the claim. The result is valid until a time.
func (l *Login) Person(name string, values []string, until time.Time) (*Person, error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("%w: the provider did not send claim %s", ErrNoRole, l.Name)
	case !isName(name):
		return nil, fmt.Errorf("%w: claim %s is not a valid name: %q", ErrNoRole, l.Name, name)
	}
	for _, g := range l.Roles {
		if g.Value == Everybody || slices.Contains(values, g.Value) {
			return &Person{Name: name, Role: g.Role, Agents: g.Agents, Until: until}, nil
		}
	}
	return nil, fmt.Errorf("%w: the gateway's file of people gives %s no role", ErrNoRole, name)
}

// Known returns the values that a Grant names.
func (l *Login) Known(values []string) (known []string) {
	for _, g := range l.Roles {
		if slices.Contains(values, g.Value) {
			known = append(known, g.Value)
		}
	}
	return known
}

func (l *Login) check() error {
	for name, address := range map[string]string{"issuer": l.Issuer, "url": l.URL} {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !local(u.Hostname())) {
			return fmt.Errorf("%s %q: use an https URL; http is only for this machine", name, address)
		}
		if name == "url" && u.Path != "" && u.Path != "/" {
			return fmt.Errorf("url %q: remove the path: the page is at the root", address)
		}
	}
	switch {
	case l.Client == "":
		return errors.New("client: give the gateway's client ID at the provider")
	case l.Key == "":
		return errors.New("key: give a text file with at least 32 random bytes, such as the output of \"head -c 32 /dev/urandom | base64\"")
	case len(l.Roles) == 0:
		return errors.New("roles: give at least one: people without a role can do nothing")
	}
	for _, g := range l.Roles {
		switch {
		case !slices.Contains(Roles(), g.Role):
			return fmt.Errorf("role %q: use viewer, user, approver or operator", g.Role)
		case g.Value == "":
			return fmt.Errorf("role %s: give a value of the claim, or %q for everyone", g.Role, Everybody)
		case g.Value != Everybody && l.Claim == "":
			return fmt.Errorf("claim: name the claim that contains %q", g.Value)
		}
	}
	return nil
}

// host returns the host name of the gateways for browsers.
func (l *Login) host() string {
	u, err := url.Parse(l.URL)
	if err != nil {
		return "" // cannot happen: check parsed it
	}
	return Hostname(u.Host)
}

func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
