package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Policy is the written form of policies, for files that people write and for the process
// that runs the calls. Every part and every list is optional; the schema of agent files
// documents each key.
type Policy struct {
	Paths    *PathRules    `json:"paths,omitempty"`
	Commands *CommandRules `json:"commands,omitempty"`
	Servers  *ServerRules  `json:"servers,omitempty"`
	Kinds    *KindRules    `json:"kinds,omitempty"`
}

// PathRules is the written form of a [PathConfig].
type PathRules struct {
	Protect  []string `json:"protect,omitempty"`
	ReadOnly []string `json:"read_only,omitempty"`
	Allow    []string `json:"allow,omitempty"`
	Outside  string   `json:"outside,omitempty"`
}

// CommandRules is the written form of a [CommandConfig], with programs to ask about.
type CommandRules struct {
	Allow    []string `json:"allow,omitempty"`
	Ask      []string `json:"ask,omitempty"`
	Deny     []string `json:"deny,omitempty"`
	Dirs     []string `json:"dirs,omitempty"`
	AllowEnv []string `json:"allow_env,omitempty"`
	DenyEnv  []string `json:"deny_env,omitempty"`
	Outside  string   `json:"outside,omitempty"`
	Code     string   `json:"code,omitempty"`
}

// ServerRules is the written form of [Servers].
type ServerRules struct {
	Trust   []string `json:"trust,omitempty"`
	Deny    []string `json:"deny,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
	Outside string   `json:"outside,omitempty"`
}

// KindRules is the written form of [Kinds].
type KindRules struct {
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Outsides returns the words for what happens to requests outside of what is allowed.
func Outsides() []string { return []string{"ask", "deny"} }

// Codes returns the words for what happens to code for an interpreter.
func Codes() []string { return []string{"allow", "ask", "deny"} }

// ruling parses a word of the policy; "" leaves the ruling to the policy it belongs to.
func ruling(key, word string, words []string) (tool.Ruling, error) {
	if word != "" && !slices.Contains(words, word) {
		return 0, fmt.Errorf("%s: %q: use one of %q", key, word, words)
	}
	return map[string]tool.Ruling{"": tool.NoOpinion, "allow": tool.Allow, "ask": tool.Ask, "deny": tool.Deny}[word], nil
}

// In returns the policy for calls of tools that work in a folder; nil if it is empty. It
// returns an error for an invalid policy.
func (p *Policy) In(root string) (tool.Permissions, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // it is empty
	}
	var all []tool.Permissions
	var errs []error
	add := func(one tool.Permissions, err error) {
		all, errs = append(all, one), append(errs, err)
	}
	if p.Paths != nil {
		add(p.Paths.in(root))
	}
	if p.Commands != nil {
		add(p.Commands.in(root))
	}
	if s := p.Servers; s != nil {
		outside, err := ruling("servers.outside", s.Outside, Outsides())
		add(Servers{Trusted: s.Trust, Denied: s.Deny, Scopes: s.Scopes, Outside: outside}, err)
	}
	if k := p.Kinds; k != nil {
		add(Kinds{Allow: k.Allow, Ask: k.Ask, Deny: k.Deny}, nil)
	}
	if err := errors.Join(errs...); err != nil || len(all) == 0 {
		return nil, err
	}
	return All(all...), nil
}

func (r *PathRules) in(root string) (tool.Permissions, error) {
	outside, err := ruling("paths.outside", r.Outside, Outsides())
	if err != nil {
		return nil, err
	}
	return NewPaths(PathConfig{Root: root, Protected: r.Protect, ReadOnly: r.ReadOnly, Allowed: r.Allow, Outside: outside})
}

func (r *CommandRules) in(root string) (tool.Permissions, error) {
	outside, err := ruling("commands.outside", r.Outside, Outsides())
	if err != nil {
		return nil, err
	}
	code, err := ruling("commands.code", r.Code, Codes())
	if err != nil {
		return nil, err
	}
	commands, err := NewCommands(CommandConfig{
		Root: root, Allowed: r.Allow, Denied: r.Deny, Dirs: r.Dirs, AllowedEnv: r.AllowEnv, DeniedEnv: r.DenyEnv, Outside: outside, Code: code,
	})
	if err != nil || len(r.Ask) == 0 {
		return commands, err
	}
	asking, err := AskAbout(root, r.Ask...)
	if err != nil {
		return nil, err
	}
	return All(commands, asking), nil
}

// Read returns the policy from its JSON, for calls of tools that work in a folder. A
// policy that cannot be read, such as one of a later release, denies every call: its
// author wanted some limit.
func Read(written json.RawMessage, root string) tool.Permissions {
	var p Policy
	d := json.NewDecoder(bytes.NewReader(written))
	d.DisallowUnknownFields()
	err := d.Decode(&p)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	if err != nil {
		return unreadable{err}
	}
	made, err := p.In(root)
	switch {
	case err != nil:
		return unreadable{err}
	case made == nil:
		return All()
	}
	return made
}

// unreadable stands for a policy that cannot be read.
type unreadable struct{ err error }

// Evaluate denies.
func (u unreadable) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return deny(CodePolicy, "the policy of the session's agent cannot be read here: %v", u.err), nil
}

// AskAbout returns a policy that asks about programs, recognizing them the way [Commands]
// recognizes denied ones: under any path, in any case, and started by a launcher.
func AskAbout(root string, programs ...string) (tool.Permissions, error) {
	known, err := NewCommands(CommandConfig{Root: root, Denied: programs})
	if err != nil {
		return nil, err
	}
	return asking{known}, nil
}

type asking struct{ known *Commands }

// Evaluate asks if the request is about one of the programs.
func (a asking) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	v, err := a.known.Evaluate(ctx, r)
	switch {
	case err != nil:
		return tool.Verdict{}, err
	case v.Ruling != tool.Deny:
		return tool.Verdict{}, nil
	case v.Code != CodeCommand:
		return v, nil
	}
	return tool.Verdict{Ruling: tool.Ask, RequestKind: kindCommand, Reason: content.SensitiveCommand}, nil
}
