package permission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// PathConfig says which paths calls may get at. Relative paths are relative to Root.
type PathConfig struct {
	Root      string      // what paths of calls are relative to; required
	Protected []string    // nobody gets at these and what lies in them
	ReadOnly  []string    // these may be read
	Allowed   []string    // these may be read and written; none: no opinion about what is not named above
	Outside   tool.Ruling // of what lies outside of Allowed; zero: tool.Ask; or tool.Deny
}

// Paths is a policy for requests of the kinds filesystem.…. It judges where a path
// leads to, not how it is written: symbolic links are followed, also those that lead
// to what is not there yet, and so is each .. both as the operating system takes it
// and as it reads. A file or directory is known again under another name, by a hard
// link or in another case.
//
// To read and to list is free in what is read-only; every other kind changes
// something. To delete is about all that lies below the path, and a link is deleted
// itself. To read a directory in which something protected lies is outside of what is
// allowed: who searches it would see that. A path that cannot be resolved is denied.
//
// The file system is looked at when the policy is asked, so the policy belongs where
// the files are, and as close before the call as can be. It does not replace a root
// that cannot be left, as the tools of tool/fs have one.
type Paths struct {
	root                         string
	protected, readOnly, allowed []string
	outside                      tool.Ruling
}

var _ tool.Permissions = (*Paths)(nil)

// NewPaths returns the policy. It returns an error if Root is missing or Outside is
// neither Ask nor Deny.
func NewPaths(c PathConfig) (*Paths, error) {
	root, err := rootOf(c.Root)
	if err != nil {
		return nil, fmt.Errorf("path policy: %w", err)
	}
	p := &Paths{root: root, outside: c.Outside}
	if err := checkRuling(c.Outside); err != nil {
		return nil, fmt.Errorf("path policy: Outside: %w", err)
	}
	p.protected, p.readOnly, p.allowed = absolute(root, c.Protected), absolute(root, c.ReadOnly), absolute(root, c.Allowed)
	return p, nil
}

func rootOf(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("no root: name the directory that paths are relative to")
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("root %s: %w", dir, err)
	}
	return root, nil
}

func checkRuling(r tool.Ruling) error {
	if r != tool.NoOpinion && r != tool.Ask && r != tool.Deny {
		return fmt.Errorf("ruling %d: use tool.Ask or tool.Deny", r)
	}
	return nil
}

func absolute(root string, paths []string) []string {
	var out []string
	for _, p := range paths {
		p = filepath.FromSlash(p)
		if !filepath.IsAbs(p) {
			p = filepath.Join(root, p)
		}
		out = append(out, filepath.Clean(p))
	}
	return out
}

// access is what a kind of request does to a path.
type access struct {
	reads   bool // sees the content of what lies below
	changes bool
	removes bool // with all that lies below; the link and not where it leads
}

func accessOf(kind string) access {
	switch strings.TrimPrefix(kind, kindsPath) {
	case "read":
		return access{reads: true}
	case "list":
		return access{}
	case "write", "edit", "mkdir":
		return access{changes: true}
	case "delete":
		return access{changes: true, removes: true}
	}
	return access{reads: true, changes: true, removes: true} // whatever it does
}

// Evaluate judges where the request's paths lead to.
func (p *Paths) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if !strings.HasPrefix(r.Kind, kindsPath) {
		return tool.Verdict{}, nil
	}
	named := readPaths(r.Target)
	if len(named) == 0 {
		return deny(CodeUnreadable, "the request %s names no path", r.Kind), nil
	}
	a, rules := accessOf(r.Kind), p.resolved()
	var verdicts []tool.Verdict
	open := false
	for _, name := range named {
		places, err := p.places(name, r.Kind, a)
		if err != nil {
			return deny(CodePath, "path %q cannot be resolved", name), nil //nolint:nilerr // what cannot be judged is denied
		}
		for _, at := range places {
			v := rules.judge(r, name, at, a)
			open = open || v.Ruling == tool.NoOpinion
			verdicts = append(verdicts, v)
		}
	}
	v := combine(verdicts...)
	if v.Ruling == tool.Allow && open {
		return tool.Verdict{}, nil
	}
	return v, nil
}

// places lists where a path may lead to, each once.
func (p *Paths) places(name, kind string, a access) ([]string, error) {
	full := filepath.FromSlash(name)
	if !filepath.IsAbs(full) {
		full = p.root + separator + full
	}
	ways := []func(string) (string, error){resolve}
	if a.removes {
		ways = append(ways, resolveParent)
		if kind == kindsPath+"delete" {
			ways = ways[1:]
		}
	}
	var out []string
	for _, way := range ways {
		for _, written := range []string{full, filepath.Clean(full)} {
			at, err := way(written)
			if err != nil {
				return nil, err
			}
			if len(out) == 0 || out[len(out)-1] != at {
				out = append(out, at)
			}
		}
	}
	return out, nil
}

// rulesOfPaths are a policy's paths, both as they are written and as they resolve
// now.
type rulesOfPaths struct {
	protected, readOnly, allowed []string
	limited                      bool // to what is allowed
	outside                      tool.Ruling
}

func (p *Paths) resolved() rulesOfPaths {
	return rulesOfPaths{
		protected: everywhere(p.protected), readOnly: everywhere(p.readOnly), allowed: ends(p.allowed),
		limited: len(p.allowed) > 0, outside: p.outside,
	}
}

// everywhere adds to each path where it leads to.
func everywhere(paths []string) []string { return append(ends(paths), paths...) }

func ends(paths []string) []string {
	var out []string
	for _, p := range paths {
		if at, err := resolve(p); err == nil {
			out = append(out, at)
		}
	}
	return out
}

func (p rulesOfPaths) judge(r tool.Request, name, at string, a access) tool.Verdict {
	outside := func(why string) tool.Verdict {
		text := fmt.Sprintf("%s: %s %s", summary(r), at, why)
		return refuse(p.outside, ask(r.Kind, at, content.SensitivePath, text), CodePath, "path %q %s", name, why)
	}
	switch {
	case hit(p.protected, at), a.removes && covers(at, p.protected):
		return deny(CodeProtected, "path %q is protected", name)
	case a.changes && hit(p.readOnly, at), a.removes && covers(at, p.readOnly):
		return deny(CodeReadOnly, "path %q may only be read", name)
	case a.reads && covers(at, p.protected):
		return outside("holds what is protected")
	case !a.changes && hit(p.readOnly, at):
		return allow()
	case !p.limited:
		return tool.Verdict{}
	}
	for _, dir := range p.allowed {
		if within(dir, at, false) {
			return allow()
		}
	}
	return outside("lies outside of what is allowed")
}

// hit reports whether one of the paths is at or above the place.
func hit(paths []string, at string) bool {
	for _, p := range paths {
		if within(p, at, true) {
			return true
		}
	}
	return false
}

// covers reports whether one of the paths is there and lies below the place.
func covers(at string, paths []string) bool {
	for _, p := range paths {
		if _, err := os.Lstat(p); err == nil && within(at, p, true) {
			return true
		}
	}
	return false
}
