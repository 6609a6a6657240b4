// Package people says who uses a gateway and what each person may see and do.
//
// The one idea: a person is a name, a role and the agents that the role is about. A session has an owner, who
// opened it or, of a sub-agent's, the one that it works for, and an agent. Those four decide everything, so every gateway of a
// deployment decides the same.
//
//	viewer    sees the sessions of its agents
//	user      opens sessions of its agents, and sees and drives those that it opened
//	approver  also sees all sessions of its agents, and decides what they ask
//	operator  sees and does everything
//
// A file names people and the SHA-256 of their tokens, so that a reader of it cannot act as them. It may also say which
// roles people of a provider of OpenID Connect have.
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

// Role says what a person may do.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	User     Role = "user"
	Approver Role = "approver"
	Operator Role = "operator"
)

// Roles returns all roles, the most powerful one last.
func Roles() []Role { return []Role{Viewer, User, Approver, Operator} }

// Person is somebody who uses the gateway. Journals record the name as the sender of what they ask.
type Person struct {
	Name   string   `yaml:"name"`
	Role   Role     `yaml:"role"`
	Token  string   `yaml:"token"`            // "sha256:" and the hash of the token in hexadecimal
	Agents []string `yaml:"agents,omitempty"` // patterns of their names; none: all, and sessions without an agent

	Until time.Time `json:"-" yaml:"-"` // when what proves who it is ends; zero: never
}

// Subject is what decides about a session.
type Subject struct {
	Owner string // whose it is, see report.Owner; "": not of a person of a gateway
	Agent string // "": none
	For   bool   // the owner did not open it, but the session that it works for
}

// owns reports whether the person opened the session.
func (p *Person) owns(s Subject) bool { return s.Owner != "" && s.Owner == p.Name }

// handles reports whether the role is about the session's agent.
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

// MayDrive reports whether the person may send input to a session, cancel what it does, and close it. A sub-agent of which the
// person could not open a session is driven by its caller.
func (p *Person) MayDrive(s Subject) bool {
	return p.Role == Operator || p.Role != Viewer && p.owns(s) && (!s.For || p.handles(s.Agent))
}

// MayDecide reports whether the person may decide what a session asks.
func (p *Person) MayDecide(s Subject) bool {
	return p.Role == Operator || p.Role == Approver && (p.owns(s) || p.handles(s.Agent))
}

// MayOperate reports whether the person may see what is about the whole deployment.
func (p *Person) MayOperate() bool { return p.Role == Operator }

// ErrUnknown is returned by Find for a token of no person.
var ErrUnknown = errors.New("unknown token")

// Directory is who may use a gateway. It does not change.
type Directory struct {
	people []Person
	login  *Login // nil: there is no provider
}

// prefix of the hash of a token.
const prefix = "sha256:"

// Hash returns the hash of a token as a file has it.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return prefix + hex.EncodeToString(sum[:])
}

// NewToken returns a token that cannot be guessed.
func NewToken() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Alone returns the directory of one operator.
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
		return nil, errors.New("people: there are none: \"turnlog gateway token NAME\" prints an entry")
	}
	seen := make(map[string]string)
	for i := range file.People {
		file.People[i].Token = strings.ToLower(file.People[i].Token) // a hash in capital letters is the same
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

// maxName bounds a name, which is in every command that the person sends.
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

// Entry returns the lines of a file about a person with a token.
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

// Find returns the person with a token. It takes equally long for each.
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
