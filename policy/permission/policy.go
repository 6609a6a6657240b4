package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/tool"
)

// Policy is a set of policies in the form in which files contain them and in which they are sent to
// the process that runs the calls. Every part and every list is optional; the schema of agent files
// documents each key.
type Policy struct {
	Paths    *PathRules    `json:"paths,omitempty"`
	Commands *CommandRules `json:"commands,omitempty"`
	Servers  *Servers      `json:"servers,omitempty"`
	Kinds    *Kinds        `json:"kinds,omitempty"`
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
		add(NewPaths(root, *p.Paths))
	}
	if p.Commands != nil {
		add(NewCommands(root, *p.Commands))
	}
	if p.Servers != nil {
		add(p.Servers, checkWord("servers: outside", p.Servers.Outside, wordAsk, wordDeny))
	}
	if p.Kinds != nil {
		add(p.Kinds, nil)
	}
	if err := errors.Join(errs...); err != nil || len(all) == 0 {
		return nil, err
	}
	return All(all...), nil
}

// The words for what happens to requests that a policy does not allow.
const (
	wordAllow = "allow"
	wordAsk   = "ask" // the default
	wordDeny  = "deny"
)

func checkWord(key, word string, words ...string) error {
	if word != "" && !slices.Contains(words, word) {
		return fmt.Errorf("%s: %q: use one of %q", key, word, words)
	}
	return nil
}

// Read returns the policy from its JSON, for calls of tools that work in a folder. A policy that
// cannot be read, such as one from a later release, denies every call: its author wanted a limit.
func Read(written json.RawMessage, root string) tool.Permissions {
	var p Policy
	d := json.NewDecoder(bytes.NewReader(written))
	d.DisallowUnknownFields()
	err := d.Decode(&p)
	if err == nil && d.More() {
		err = errors.New("more than one value")
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

// unreadable replaces a policy that cannot be read.
type unreadable struct{ err error }

// Evaluate denies.
func (u unreadable) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return deny(CodePolicy, "the policy of the session's agent cannot be read here: %v", u.err), nil
}
