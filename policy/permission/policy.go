package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Policy is policies written down, for whoever runs the calls to hold. It is meant for
// files that people write: every part and every list may be left out.
type Policy struct {
	Paths    *PathRules    `json:"paths,omitempty" jsonschema:"what calls may do with files, by where paths lead to"`
	Commands *CommandRules `json:"commands,omitempty" jsonschema:"which programs calls may run"`
	Servers  *ServerRules  `json:"servers,omitempty" jsonschema:"which MCP servers calls may reach"`
	Kinds    *KindRules    `json:"kinds,omitempty" jsonschema:"what calls may do, by the kinds of their requests; an entry fits its kind and all below it, and the longest that fits counts"`
}

// PathRules are a [PathConfig] written down.
type PathRules struct {
	Protect  []string `json:"protect,omitempty" jsonschema:"paths that nobody gets at, nor at what lies in them; relative ones are below the root of the tools"`
	ReadOnly []string `json:"read_only,omitempty" jsonschema:"paths that may only be read, with what lies in them"`
	Allow    []string `json:"allow,omitempty" jsonschema:"directories that may be used freely; no opinion about what is not named above unless given"`
	Outside  string   `json:"outside,omitempty" jsonschema:"what becomes of a path outside of allow; ask unless given"`
}

// CommandRules are a [CommandConfig] written down, with programs that are asked about.
type CommandRules struct {
	Allow    []string `json:"allow,omitempty" jsonschema:"programs that may run, by name or absolute path; all that are not denied unless given"`
	Ask      []string `json:"ask,omitempty" jsonschema:"programs that a person has to approve; with allow they have to be named there, too, where outside is deny"`
	Deny     []string `json:"deny,omitempty" jsonschema:"programs that never run"`
	Dirs     []string `json:"dirs,omitempty" jsonschema:"directories in which commands may begin; anywhere unless given"`
	AllowEnv []string `json:"allow_env,omitempty" jsonschema:"variables that a call may set, in which * stands for any characters"`
	DenyEnv  []string `json:"deny_env,omitempty" jsonschema:"variables that no call may set"`
	Outside  string   `json:"outside,omitempty" jsonschema:"what becomes of a program or directory that is not allowed; ask unless given"`
	Code     string   `json:"code,omitempty" jsonschema:"what becomes of code for an interpreter, thus of every script; ask unless given"`
}

// ServerRules are a [Servers] written down.
type ServerRules struct {
	Trust   []string `json:"trust,omitempty" jsonschema:"servers that may be reached; all that are not denied unless given"`
	Deny    []string `json:"deny,omitempty" jsonschema:"servers that may not"`
	Scopes  []string `json:"scopes,omitempty" jsonschema:"what servers may be authorized for; anything unless given"`
	Outside string   `json:"outside,omitempty" jsonschema:"what becomes of other servers and scopes; ask unless given"`
}

// KindRules are a [Kinds] written down.
type KindRules struct {
	Allow []string `json:"allow,omitempty" jsonschema:"kinds of requests that are allowed, like filesystem.read"`
	Ask   []string `json:"ask,omitempty" jsonschema:"kinds that a person has to approve"`
	Deny  []string `json:"deny,omitempty" jsonschema:"kinds that are denied"`
}

// The words of a [Policy] that stand for rulings.
const (
	wordAllow = "allow"
	wordAsk   = "ask"
	wordDeny  = "deny"
)

// Outsides are the words for what becomes of what is not allowed.
func Outsides() []string { return []string{wordAsk, wordDeny} }

// Codes are the words for what becomes of code for an interpreter.
func Codes() []string { return []string{wordAllow, wordAsk, wordDeny} }

// In makes the policy for calls whose tools work in a folder; nil if it says nothing. It
// returns an error for what cannot be meant.
func (p *Policy) In(root string) (tool.Permissions, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // it says nothing
	}
	var all []tool.Permissions
	add := func(one tool.Permissions, err error) error {
		if err == nil && one != nil {
			all = append(all, one)
		}
		return err
	}
	err := errors.Join(add(p.Paths.in(root)), add(p.Commands.in(root)), add(p.Servers.made()), add(p.Kinds.made()))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return All(all...), nil
}

func (r *PathRules) in(root string) (tool.Permissions, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // it says nothing
	}
	outside, err := ruling("paths.outside", r.Outside, Outsides())
	if err != nil {
		return nil, err
	}
	return NewPaths(PathConfig{Root: root, Protected: r.Protect, ReadOnly: r.ReadOnly, Allowed: r.Allow, Outside: outside})
}

func (r *CommandRules) in(root string) (tool.Permissions, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // it says nothing
	}
	outside, err := ruling("commands.outside", r.Outside, Outsides())
	if err != nil {
		return nil, err
	}
	code, err := ruling("commands.code", r.Code, Codes())
	if err != nil {
		return nil, err
	}
	judged, err := NewCommands(CommandConfig{
		Root: root, Allowed: r.Allow, Denied: r.Deny, Dirs: r.Dirs, AllowedEnv: r.AllowEnv, DeniedEnv: r.DenyEnv, Outside: outside, Code: code,
	})
	if err != nil || len(r.Ask) == 0 {
		return judged, err
	}
	asked, err := AskAbout(root, r.Ask...)
	if err != nil {
		return nil, err
	}
	return All(judged, asked), nil
}

func (r *ServerRules) made() (tool.Permissions, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // it says nothing
	}
	outside, err := ruling("servers.outside", r.Outside, Outsides())
	return Servers{Trusted: r.Trust, Denied: r.Deny, Scopes: r.Scopes, Outside: outside}, err
}

func (r *KindRules) made() (tool.Permissions, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // it says nothing
	}
	return Kinds{Allow: r.Allow, Ask: r.Ask, Deny: r.Deny}, nil
}

// ruling is what a word of the policy means; "" is for the policy it belongs to to say.
func ruling(at, word string, words []string) (tool.Ruling, error) {
	rulings := map[string]tool.Ruling{"": tool.NoOpinion, wordAllow: tool.Allow, wordAsk: tool.Ask, wordDeny: tool.Deny}
	r, ok := rulings[word]
	if !ok || r == tool.Allow && words[0] != wordAllow {
		return 0, fmt.Errorf("%s: %q: use one of %q", at, word, words)
	}
	return r, nil
}

// Read makes the policy that was written down as JSON, for calls whose tools work in a
// folder. What cannot be read, also what a later release can say, denies every call: who
// wrote it wanted less than everything.
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
	var made tool.Permissions
	if err == nil {
		made, err = p.In(root)
	}
	switch {
	case err != nil:
		return unreadable{err}
	case made == nil:
		return All()
	}
	return made
}

// unreadable stands for a policy that nobody knows.
type unreadable struct{ err error }

// Evaluate denies.
func (u unreadable) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return deny(CodePolicy, "the policy of the session's agent cannot be read here: %v", u.err), nil
}

// AskAbout is a policy that asks about programs, under any path, in any case, and behind a
// launcher: it knows them as [Commands] knows those that it denies.
func AskAbout(root string, programs ...string) (tool.Permissions, error) {
	known, err := NewCommands(CommandConfig{Root: root, Denied: programs})
	if err != nil {
		return nil, err
	}
	return asked{known}, nil
}

type asked struct {
	known *Commands
}

// Evaluate asks about the request if it is about one of the programs.
func (a asked) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
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
