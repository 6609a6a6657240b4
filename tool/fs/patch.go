package fs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

type patchInput struct {
	Patch    string            `json:"patch" jsonschema:"Begins with the line *** Begin Patch and ends with *** End Patch. Between them, for each file: *** Add File: PATH, then its lines, each after a +; *** Delete File: PATH; or *** Update File: PATH, perhaps *** Move to: PATH, then hunks. A hunk begins with a line @@, which may name a line of the file that precedes the hunk, as in @@ func main() {. Its lines begin with a space (unchanged), - (removed) or + (added). Paths are relative to the root."`
	Versions map[string]string `json:"versions,omitempty" jsonschema:"The version of each file to change or delete, by path, as fs_read_file returned it."`
}

// patchTool proposes one request for each file. The other tools of this package change
// a single file.
type patchTool struct{ tool.Tool }

func newPatch(d *dir) (tool.Tool, error) {
	t, err := tool.CallFunc("fs_patch",
		"Applies a patch that changes, creates, deletes and renames text files, all or nothing. Unchanged and removed lines must match exactly. "+
			"If anything does not match, the result says where and why, and no file is changed.",
		bind(d, (*dir).patch), tool.WithSpec(writing), d.versions("versions"),
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
		fmt.Fprintf(&text, "%s %s", c.done, show(c.file.name))
		if !c.remove {
			text.WriteString(d.versioned(sumOf(c.after)))
		}
		text.WriteByte('\n')
		out.ChangedPaths = append(out.ChangedPaths, c.file.name)
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
	file          file // as it was
	before, after string
	remove        bool
	done          string // the verb in the result
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
			if slices.ContainsFunc(plan, func(other change) bool { return other.file.name == c.file.name }) {
				return nil, patchFailure(fmt.Errorf("line %d of the patch: %s appears twice: put its hunks together", f.line, show(c.file.name)))
			}
			plan = append(plan, c)
		}
	}
	return plan, nil
}

func (d *dir) planFile(ctx context.Context, f filePatch, versions map[string]string) ([]change, error) {
	c, err := d.planned(f, f.name, f.action == create)
	if err != nil {
		return nil, err
	}
	if c.done = "created"; f.action != create {
		c.done = "changed"
		if c.before, err = d.current(ctx, c.file, cmp.Or(versions[c.file.name], versions[c.file.given])); err != nil {
			return nil, err
		}
	}
	if c.after, err = f.apply(c.before); err != nil {
		return nil, err
	}
	switch {
	case f.action == remove:
		c.remove, c.done = true, "deleted"
	case f.to != "":
		moved, err := d.planned(f, f.to, true)
		if err != nil {
			return nil, err
		}
		moved.after, moved.file.mode, moved.done = c.after, c.file.mode, "renamed "+show(c.file.name)+" to"
		c.remove, c.done = true, "removed"
		return []change{moved, c}, nil
	case f.action == update && c.after == c.before:
		return nil, fmt.Errorf("line %d of the patch: there is no change of %s", f.line, show(c.file.name))
	}
	return []change{c}, nil
}

// planned returns the change of a file, which must not exist if it is new.
func (d *dir) planned(f filePatch, path string, isNew bool) (change, error) {
	now, err := d.file(path)
	if err == nil && isNew && now.exists {
		err = fmt.Errorf("line %d of the patch: %s already exists: change it, or delete it first", f.line, show(now.name))
	}
	return change{file: now}, err
}

// perform makes the changes and, if one fails, undoes those already made.
func (d *dir) perform(ctx context.Context, plan []change) error {
	for i, c := range plan {
		err := d.make(ctx, c)
		if err == nil {
			continue
		}
		for _, made := range slices.Backward(plan[:i]) {
			undo := change{file: made.file, after: made.before, remove: !made.file.exists}
			if undoErr := d.make(context.WithoutCancel(ctx), undo); undoErr != nil {
				return tool.Failure(CodePatch, "%v; and %s, which had been changed, could not be restored: %v", err, show(made.file.name), undoErr)
			}
		}
		return err
	}
	return nil
}

func (d *dir) make(ctx context.Context, c change) error {
	if c.remove {
		at, err := d.pin("delete", c.file.name, false)
		if err != nil {
			return err
		}
		defer at.close()
		if err := at.Remove(at.base); err != nil {
			return d.explain(c.file.name, err)
		}
		return nil
	}
	return d.put(ctx, c.file, c.after)
}
