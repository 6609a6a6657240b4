package permission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/tool"
)

// PathRules say which paths calls may use. Relative paths are relative to the policy's root.
type PathRules struct {
	Protect  []string `json:"protect,omitempty"`   // these, and everything in them, may not be touched
	ReadOnly []string `json:"read_only,omitempty"` // these, and everything in them, may only be read
	Allow    []string `json:"allow,omitempty"`     // these may be read and written; none: no opinion about other paths
	Outside  string   `json:"outside,omitempty"`   // for paths outside of Allow: ask (the default) or deny
}

// Paths is a policy for requests of the kinds filesystem.…. It judges where a path leads,
// not how it is written: it follows symbolic links, even to targets that do not exist yet,
// and resolves each .. both lexically and the way the operating system does. It recognizes a
// file under another name, through a hard link or in upper or lower case. If there are protected
// or read-only paths, it asks about a file with several names: one of them may be in such a path.
//
// Read-only paths may be read and listed; every other kind changes something. Deleting
// concerns everything below the path, and the link itself, not its target. Reading a
// directory that contains a protected path counts as outside Allow, since a search would
// see it. A path that cannot be resolved is denied.
//
// Evaluate reads the file system, so use the policy where the files are, as close to the call as
// possible. It does not replace a root that cannot be left, like the one of tool/fs.
type Paths struct {
	rules                        PathRules
	root                         string
	protected, readOnly, allowed []string // absolute
}

var _ tool.Permissions = (*Paths)(nil)

// NewPaths returns the policy for calls with paths that are relative to a root. It returns
// an error if the root is missing or Outside is unknown.
func NewPaths(root string, r PathRules) (*Paths, error) {
	root, err := rootOf(root)
	if err = errors.Join(err, checkWord("outside", r.Outside, wordAsk, wordDeny)); err != nil {
		return nil, fmt.Errorf("path policy: %w", err)
	}
	return &Paths{
		rules: r, root: root,
		protected: withTargets(root, r.Protect), readOnly: withTargets(root, r.ReadOnly), allowed: absolute(root, r.Allow),
	}, nil
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

// withTargets returns the paths and, for paths with links, where they lead now. A link may change later.
func withTargets(root string, paths []string) []string {
	out := absolute(root, paths)
	for _, p := range out {
		if at, err := filepath.EvalSymlinks(p); err == nil && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// access describes how a kind of request uses a path.
type access struct {
	reads   bool // the content of everything below
	changes bool
	removes bool // everything below, and a link, not its target
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
	return access{reads: true, changes: true, removes: true} // unknown: assume anything
}

// Evaluate judges where the request's paths lead.
func (p *Paths) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if !strings.HasPrefix(r.Kind, kindsPath) {
		return tool.Verdict{}, nil
	}
	named := readPaths(r.Target)
	if len(named) == 0 {
		return deny(CodeUnreadable, "the request %s names no path", r.Kind), nil
	}
	a, now := accessOf(r.Kind), p.resolved()
	var verdicts []tool.Verdict
	open := false
	for _, name := range named {
		places, err := p.places(name, r.Kind, a)
		if err != nil {
			return deny(CodePath, "path %q cannot be resolved", name), nil //nolint:nilerr // what cannot be judged is denied
		}
		for _, at := range places {
			v := now.judge(r, name, at, a)
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

func (p *Paths) places(name, kind string, a access) ([]string, error) {
	switch {
	case kind == kindsPath+"delete":
		return leads(p.root, name, resolveParent)
	case a.removes:
		at, err := leads(p.root, name, resolve)
		parents, errParent := leads(p.root, name, resolveParent)
		return slices.Compact(append(at, parents...)), errors.Join(err, errParent)
	}
	return leads(p.root, name, resolve)
}

// leads returns where a path below root leads, both as it is written and in its shortest form.
func leads(root, name string, resolve func(string) (string, error)) ([]string, error) {
	full := filepath.FromSlash(name)
	if !filepath.IsAbs(full) {
		full = root + separator + full
	}
	written, err := resolve(full)
	short, errShort := resolve(filepath.Clean(full))
	return slices.Compact([]string{written, short}), errors.Join(err, errShort)
}

func (p *Paths) resolved() *Paths {
	return &Paths{rules: p.rules, protected: everywhere(p.protected), readOnly: everywhere(p.readOnly), allowed: ends(p.allowed)}
}

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

// judge judges access to one place, by resolved paths.
func (p *Paths) judge(r tool.Request, name, at string, a access) tool.Verdict {
	outside := func(why string) tool.Verdict {
		text := fmt.Sprintf("%s: %s %s", summary(r), at, why)
		return refuse(p.rules.Outside, ask(r.Kind, at, content.SensitivePath, text), CodePath, "path %q %s", name, why)
	}
	switch {
	case hit(p.protected, at), a.removes && covers(at, p.protected):
		return deny(CodeProtected, "path %q is protected", name)
	case a.changes && hit(p.readOnly, at), a.removes && covers(at, p.readOnly):
		return deny(CodeReadOnly, "path %q may only be read", name)
	case a.reads && covers(at, p.protected):
		return outside("contains protected files")
	case len(p.protected)+len(p.readOnly) > 0 && (a.reads || a.changes && !a.removes) && linked(at):
		return outside("has more than one name, and may be a protected file")
	case !a.changes && hit(p.readOnly, at):
		return allow()
	case len(p.rules.Allow) == 0:
		return tool.Verdict{}
	}
	if slices.ContainsFunc(p.allowed, func(dir string) bool { return within(dir, at, false) }) {
		return allow()
	}
	return outside("is outside the allowed paths")
}

// linked reports whether a file has other names, by hard links: one of them may be below a
// protected directory.
func linked(at string) bool {
	info, err := os.Lstat(at)
	return err == nil && textfile.Linked(info)
}

// hit reports whether a place is, or is below, one of the paths.
func hit(paths []string, at string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return within(p, at, true) })
}

// covers reports whether one of the paths exists at or below a place.
func covers(at string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		_, err := os.Lstat(p)
		return err == nil && within(at, p, true)
	})
}
