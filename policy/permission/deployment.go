package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/yamltext"
)

// Deployment is the policy of a deployment, in a file that its nodes read, or of a program that runs
// agents itself. Sessions, agents and turns only restrict it. The first rule that applies to the
// session and matches the call counts. A call that no rule matches is guarded: it runs if its tool
// only reads, otherwise a person is asked. The zero Deployment has no rules.
type Deployment struct {
	Name  string       `json:"name,omitempty" yaml:"name"` // for people
	Rules []ScopedRule `json:"rules" yaml:"rules"`
}

// ScopedRule is a rule about some sessions. In all of its patterns, * matches any characters.
type ScopedRule struct {
	Tool   string        `json:"tool" yaml:"tool"` // name pattern
	Action events.Action `json:"action" yaml:"action"`

	Queue  string `json:"queue,omitempty" yaml:"queue"`   // pattern of the queue that runs the call; empty: any
	Agent  string `json:"agent,omitempty" yaml:"agent"`   // pattern of the session's agent; empty: any session
	Opener string `json:"opener,omitempty" yaml:"opener"` // pattern of who opened the session; only restricts; empty: any
}

// Bounds of a policy, which every session records.
const (
	maxDeployment = 64 << 10 // bytes of a file
	maxScoped     = 200      // rules
)

// Default is the policy of a node or a program without one. Calls that only read run, and so do calls that
// delegate work to another agent, whose own calls are judged. All other calls need an approval.
func Default() Deployment {
	return Deployment{Name: "default", Rules: []ScopedRule{
		{Tool: "agent_*", Action: events.RuleAllow}, {Tool: "*", Action: events.RuleGuard},
	}}
}

// AllowAll is the policy of a program or a deployment without approvals: every call runs.
func AllowAll() *Deployment {
	return new(Deploy("allow-all", events.Rule{Tool: "*", Action: events.RuleAllow}))
}

// Deploy returns a policy with these rules for all sessions.
func Deploy(name string, rules ...events.Rule) Deployment {
	d := Deployment{Name: name}
	for _, r := range rules {
		d.Rules = append(d.Rules, ScopedRule{Tool: r.Tool, Action: r.Action, Queue: r.Queue})
	}
	return d
}

// ParseDeployment reads a policy from YAML or JSON. Its error says what is wrong with the policy. If
// known is not nil, it checks each pattern of tools.
func ParseDeployment(data []byte, known func(pattern string) error) (Deployment, error) {
	var d Deployment
	if len(data) > maxDeployment {
		return d, fmt.Errorf("%d bytes, at most %d", len(data), maxDeployment)
	}
	if err := yamltext.Decode(data, &d, yaml.Strict()); err != nil {
		return d, fmt.Errorf("not a policy: %w", err)
	}
	return d, d.check(known)
}

func (d Deployment) check(known func(pattern string) error) error {
	if len(d.Rules) > maxScoped {
		return fmt.Errorf("%d rules, at most %d", len(d.Rules), maxScoped)
	}
	var errs []error
	for i, r := range d.Rules {
		err := events.Rule{Tool: r.Tool, Action: r.Action}.Check()
		if err == nil && known != nil {
			err = known(r.Tool)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

// Digest identifies the policy: the SHA-256 of its JSON, in hexadecimal.
func (d Deployment) Digest() string {
	raw, _ := json.Marshal(d) // strings never fail
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// For returns what the policy allows the session of the first subject, which works for the sessions
// of the other subjects: only what it allows all of them. A rule that would apply only because of an
// unverified claim allows nothing. Neither do rules about openers, since every client may send input
// to a session: they only restrict.
func (d Deployment) For(subjects ...events.Subject) events.Policy {
	p := events.Policy{Name: d.Name, Digest: d.Digest(), Subjects: subjects}
	if len(subjects) == 0 {
		subjects = make([]events.Subject, 1)
	}
	add := func(s events.Subject) {
		list := d.about(s)
		if !slices.ContainsFunc(p.Rules, func(o []events.Rule) bool { return slices.Equal(o, list) }) {
			p.Rules = append(p.Rules, list)
		}
	}
	for _, s := range subjects {
		anyone, unnamed := s, s
		anyone.Opener, unnamed.Agent = "", "" // other clients may send it input as well
		add(s)
		add(anyone)
		if s.AgentClaimed {
			add(unnamed)
			unnamed.Opener = ""
			add(unnamed)
		}
	}
	return p
}

// about returns the rules that apply to sessions of a subject.
func (d Deployment) about(s events.Subject) []events.Rule {
	is := func(pattern, name string) bool { return pattern == "" || name != "" && content.Matches(pattern, name) }
	list := []events.Rule{}
	for _, r := range d.Rules {
		if is(r.Agent, s.Agent) && is(r.Opener, s.Opener) {
			list = append(list, events.Rule{Tool: r.Tool, Action: r.Action, Queue: r.Queue})
		}
	}
	return list
}
