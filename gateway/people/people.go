// Package people identifies the users of a gateway and decides what each may see and do.
//
// The one idea: a person has a name, a role, and the agents that the role applies to. A session has an agent and an
// owner: the person who opened it or, for a sub-agent's session, the owner of the calling session. Only these decide, so
// every gateway of a deployment decides the same.
//
//	viewer    sees the sessions of its agents
//	user      opens sessions of its agents, and sees and drives those that it opened
//	approver  also sees all sessions of its agents, and decides what they ask
//	operator  sees and does everything
//
// A file lists people with the SHA-256 of their tokens, so someone who reads the file cannot act as them. It can also
// give roles to people who log in with an OpenID Connect provider.
package people

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/yamltext"
)

// Role is what a person may do.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	User     Role = "user"
	Approver Role = "approver"
	Operator Role = "operator"
)

// Roles returns all roles. The most powerful one is last.
func Roles() []Role { return []Role{Viewer, User, Approver, Operator} }

// Person is a user of the gateway. Journals record the name as the sender of the person's commands.
type Person struct {
	Name   string   `yaml:"name"`
	Role   Role     `yaml:"role"`
	Token  string   `yaml:"token"`            // "sha256:" and the token's hash in hexadecimal
	Agents []string `yaml:"agents,omitempty"` // name patterns; none: all agents, and sessions without one

	Until time.Time `json:"-" yaml:"-"` // when the login or token expires; zero: never
}

// Subject is what decides who may see and use a session.
type Subject struct {
	Owner string // the owner, see report.Owner; "": not opened at a gateway
	Agent string // "": none
	For   bool   // a sub-agent's session: the owner opened its calling session
}

// owns reports whether the person is the session's owner.
func (p *Person) owns(s Subject) bool { return s.Owner != "" && s.Owner == p.Name }

// handles reports whether the person's role applies to an agent.
func (p *Person) handles(agent string) bool {
	return len(p.Agents) == 0 || slices.ContainsFunc(p.Agents, func(pattern string) bool { return agent != "" && content.Matches(pattern, agent) })
}

// MaySee reports whether the person may see a session.
func (p *Person) MaySee(s Subject) bool {
	switch p.Role {
	case Operator:
		return true
	case Viewer, Approver:
		return p.owns(s) || p.handles(s.Agent)
	case User:
		return p.owns(s)
	}
	return false
}

// MayOpen reports whether the person may open a session of an agent.
func (p *Person) MayOpen(agent string) bool {
	return p.Role == Operator || (p.Role == User || p.Role == Approver) && p.handles(agent)
}

// MayDrive reports whether the person may send input to a session, cancel its work and close it. For a sub-agent's
// session, the person must also be allowed to use that agent. Otherwise only its caller drives it.
func (p *Person) MayDrive(s Subject) bool {
	return p.Role == Operator || p.Role != Viewer && p.owns(s) && (!s.For || p.handles(s.Agent))
}

// MayDecide reports whether the person may decide a session's approvals.
func (p *Person) MayDecide(s Subject) bool {
	return p.Role == Operator || p.Role == Approver && (p.owns(s) || p.handles(s.Agent))
}

// MayOperate reports whether the person may see the state of the whole deployment.
func (p *Person) MayOperate() bool { return p.Role == Operator }

// ErrUnknown is returned by Find for a token that belongs to no one.
var ErrUnknown = errors.New("unknown token")

// Directory lists who may use a gateway. It does not change.
type Directory struct {
	people []Person
	login  *Login // nil: there is no provider
}

// prefix marks the hash of a token.
const prefix = "sha256:"

// Hash returns the hash of a token as the file has it.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return prefix + hex.EncodeToString(sum[:])
}

// NewToken returns a random token.
func NewToken() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Alone returns a directory with one operator.
func Alone(name, token string) *Directory {
	return &Directory{people: []Person{{Name: name, Role: Operator, Token: Hash(token)}}}
}

// Parse reads a file of people.
func Parse(text []byte) (*Directory, error) {
	var file struct {
		People []Person `yaml:"people"`
		OIDC   *Login   `yaml:"oidc"`
	}
	if err := yamltext.Decode(text, &file, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("people: %w", err)
	}
	if file.OIDC != nil {
		file.OIDC.Name, file.OIDC.Audience = cmp.Or(file.OIDC.Name, "email"), cmp.Or(file.OIDC.Audience, file.OIDC.Client)
		if err := file.OIDC.check(); err != nil {
			return nil, fmt.Errorf("people: oidc: %w", err)
		}
	} else if len(file.People) == 0 {
		return nil, errors.New("people: the list is empty: \"turnlog gateway token NAME\" prints an entry")
	}
	seen := make(map[string]string)
	for i := range file.People {
		file.People[i].Token = strings.ToLower(file.People[i].Token) // accept hexadecimal in upper case
		p := file.People[i]
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("people: entry %d: %w", i+1, err)
		}
		for _, key := range []string{"name " + p.Name, "token " + p.Token} {
			if other, ok := seen[key]; ok {
				return nil, fmt.Errorf("people: entry %d: %s has the same %s", i+1, other, strings.Fields(key)[0])
			}
			seen[key] = p.Name
		}
	}
	return &Directory{file.People, file.OIDC}, nil
}

// maxName limits the length of a name, since every command of the person contains it.
const maxName = 128

func isName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\u007f' })
}

func (p Person) check() error {
	hash, ok := strings.CutPrefix(p.Token, prefix)
	_, err := hex.DecodeString(hash)
	switch {
	case !isName(p.Name):
		return fmt.Errorf("name %q: use 1 to %d characters on one line", p.Name, maxName)
	case !slices.Contains(Roles(), p.Role):
		return fmt.Errorf("%s: role %q: use viewer, user, approver or operator", p.Name, p.Role)
	case !ok || err != nil || len(hash) != 2*sha256.Size:
		return fmt.Errorf("%s: token %q: use the hash that \"turnlog gateway token\" prints", p.Name, p.Token)
	}
	return nil
}

// Entry returns the lines for the file about a person with a token.
func Entry(p Person, token string) (string, error) {
	p.Token = Hash(token)
	if err := p.check(); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(map[string][]Person{"people": {p}})
	if err != nil {
		return "", fmt.Errorf("people: %w", err)
	}
	return string(text), nil
}

// Find returns the person with a token. It compares all hashes in constant time.
func (d *Directory) Find(token string) (*Person, error) {
	hash := []byte(Hash(token))
	var found *Person
	for i := range d.people {
		if subtle.ConstantTimeCompare(hash, []byte(d.people[i].Token)) == 1 {
			found = &d.people[i]
		}
	}
	if found == nil || token == "" {
		return nil, ErrUnknown
	}
	return found, nil
}
