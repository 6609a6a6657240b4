package fs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

type patchInput struct {
	Patch    string            `json:"patch" jsonschema:"A unified diff as from diff -u or git diff, or the form that begins with *** Begin Patch. Paths are relative to the root."`
	Versions map[string]string `json:"versions,omitempty" jsonschema:"The version of each file to change or delete, by path, as fs_read_file returned it."`
}

// patchTool proposes one request for each file. The other tools of this package change
// a single file.
type patchTool struct{ tool.Tool }

func newPatch(d *dir) (tool.Tool, error) {
	t, err := tool.Func("fs_patch",
		"Applies a patch that changes, creates, deletes and renames text files, all or nothing. Context lines and removed lines must match exactly; line numbers are only hints. "+
			"If anything does not match, the result says where and why, and no file is changed.",
		d.patch, tool.WithSpec(writing), d.versions("versions"),
		tool.WithSchema(func(s *jsonschema.Schema) { s.Properties["patch"].MinLength = new(1) }))
	if err != nil {
		return nil, err
	}
	return tool.Compile(patchTool{t})
}

// Propose makes a request for every file. An invalid patch, which changes nothing, is
// a request without a kind.
func (t patchTool) Propose(_ context.Context, c tool.Call) ([]tool.Request, error) {
	var in patchInput
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return nil, fmt.Errorf("propose fs_patch: %w", err)
	}
	files, err := parsePatch(in.Patch)
	if err != nil {
		return []tool.Request{tool.RequestFor(t.Spec(), c)}, nil //nolint:nilerr // the call reports it
	}
	var out []tool.Request
	for _, f := range files {
		kind, verb := f.action.words()
		out = append(out, t.request(c, kind, verb, f.name))
		if f.to != "" {
			out = append(out, t.request(c, "delete", "rename", f.name), t.request(c, "write", "write", f.to))
		}
	}
	return out, nil
}

func (t patchTool) request(c tool.Call, kind, verb, name string) tool.Request {
	r := tool.RequestFor(t.Spec(), c)
	var about any
	r.Kind, r.Summary, about = describe(kind, verb, name)
	r.Target, _ = json.Marshal(about) // a struct of one string
	return r
}

func (a action) words() (kind, verb string) {
	switch a {
	case create:
		return "write", "write"
	case remove:
		return "delete", "delete"
	default:
		return "edit", "edit"
	}
}

func (d *dir) patch(ctx context.Context, in patchInput) (tool.Output, error) {
	files, err := parsePatch(in.Patch)
	if err != nil {
		return tool.Output{}, patchFailure(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	versions := make(map[string]string, len(in.Versions))
	for name, version := range in.Versions {
		if name, err = d.Rel(name); err == nil {
			versions[name] = version
		}
	}
	plan, err := d.plan(ctx, files, versions)
	if err != nil {
		return tool.Output{}, err
	}
	if err := d.perform(ctx, plan); err != nil {
		return tool.Output{}, err
	}
	var out tool.Output
	var text strings.Builder
	for _, c := range plan {
		fmt.Fprintf(&text, "%s %s", c.done, show(c.name))
		if c.content != nil {
			text.WriteString(d.versioned(c.content))
		}
		text.WriteByte('\n')
		out.ChangedPaths = append(out.ChangedPaths, c.name)
	}
	out.Parts = tool.Text(text.String()).Parts
	return out, nil
}

func patchFailure(err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	return tool.Failure(CodePatch, "%v. Nothing was changed.", err)
}

// change is what happens to one file.
type change struct {
	name    string
	done    string // the verb in the result
	content []byte // nil: the file is deleted
	mode    fs.FileMode

	before  []byte      // the content before
	was     fs.FileMode // its mode
	existed bool
}

// plan computes all changes without making any.
func (d *dir) plan(ctx context.Context, files []filePatch, versions map[string]string) ([]change, error) {
	var plan []change
	for _, f := range files {
		changes, err := d.planFile(ctx, f, versions)
		if err != nil {
			return nil, patchFailure(err)
		}
		for _, c := range changes {
			if slices.ContainsFunc(plan, func(other change) bool { return other.name == c.name }) {
				return nil, patchFailure(fmt.Errorf("line %d of the patch: %s appears twice: put its hunks together", f.line, show(c.name)))
			}
			plan = append(plan, c)
		}
	}
	return plan, nil
}

func (d *dir) planFile(ctx context.Context, f filePatch, versions map[string]string) ([]change, error) {
	name, err := d.destination(f.name)
	if err != nil {
		return nil, err
	}
	if f.action == create {
		c, err := d.planNew(f, name, "created")
		c.content, c.mode = f.created(), f.permissions(0)
		return []change{c}, err
	}
	if _, err := d.regular(name); err != nil {
		return nil, err
	}
	given := versions[name]
	if asked, err := d.Rel(f.name); err == nil && given == "" {
		given = versions[asked]
	}
	if err := d.expect(name, given); err != nil {
		return nil, err
	}
	c := change{name: name, done: "changed", existed: true}
	if _, c.was, err = d.replaceable(name); err != nil {
		return nil, err
	}
	c.mode = f.permissions(c.was)
	if c.before, err = d.whole(ctx, name, maxEdit); err != nil {
		return nil, err
	}
	after, err := f.apply(c.before)
	if err != nil {
		return nil, err
	}
	if f.action == remove {
		if len(f.hunks) > 0 && len(after) > 0 {
			return nil, fmt.Errorf("line %d of the patch: %s is deleted, but has more lines than the patch removes", f.line, show(name))
		}
		c.done = "deleted"
		return []change{c}, nil
	}
	if f.to == "" {
		if string(after) == string(c.before) && c.mode == c.was {
			return nil, fmt.Errorf("line %d of the patch: it changes nothing in %s", f.line, show(name))
		}
		c.content = after
		return []change{c}, nil
	}
	to, err := d.destination(f.to)
	if err != nil {
		return nil, err
	}
	moved, err := d.planNew(f, to, "renamed "+show(name)+" to")
	moved.content, moved.mode, c.done = after, c.mode, "removed"
	return []change{moved, c}, err
}

func (d *dir) planNew(f filePatch, name, done string) (change, error) {
	c := change{name: name, done: done}
	switch _, err := d.Lstat(name); {
	case err == nil:
		return c, fmt.Errorf("line %d of the patch: %s already exists: change it, or delete it first", f.line, show(name))
	case !errors.Is(err, fs.ErrNotExist):
		return c, d.explain(name, err)
	}
	return c, nil
}

// destination returns the file that a path in the patch refers to.
func (d *dir) destination(name string) (string, error) {
	rel, err := d.Rel(name)
	if err != nil {
		return "", err
	}
	if rel == "." {
		return "", tool.Failure(CodeKind, "path %q is the root itself: name a file in it", name)
	}
	return d.resolve(rel)
}

// perform makes the changes and, if one fails, undoes those already made.
func (d *dir) perform(ctx context.Context, plan []change) error {
	for i, c := range plan {
		err := d.make(ctx, c)
		if err == nil {
			continue
		}
		for _, made := range slices.Backward(plan[:i]) {
			if undo := d.restore(context.WithoutCancel(ctx), made); undo != nil {
				return tool.Failure(CodePatch, "%v; and %s, which had been changed, could not be restored: %v", err, show(made.name), undo)
			}
		}
		return err
	}
	return nil
}

func (d *dir) make(ctx context.Context, c change) error {
	if c.content == nil {
		if err := d.Remove(c.name); err != nil {
			return d.explain(c.name, err)
		}
		return nil
	}
	if !c.existed {
		if err := d.MkdirAll(path.Dir(c.name), 0o755); err != nil {
			return d.explain(path.Dir(c.name), err)
		}
	}
	return d.put(ctx, c.name, c.content, c.mode)
}

// restore undoes a change.
func (d *dir) restore(ctx context.Context, c change) error {
	if !c.existed {
		return d.Remove(c.name) //nolint:wrapcheck // perform names the file
	}
	return d.put(ctx, c.name, c.before, c.was)
}
