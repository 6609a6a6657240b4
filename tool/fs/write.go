package fs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

type writeInput struct {
	Path    string `json:"path" jsonschema:"The file, relative to the root. Missing directories are created."`
	Content string `json:"content" jsonschema:"The whole content of the file."`
	Version string `json:"version,omitempty" jsonschema:"The version of the file to replace, as fs_read_file returned it. Leave it out for a new file."`
}

// Describe describes the permission request.
func (in writeInput) Describe() (kind, summary string, target any) {
	return describe("write", "write", in.Path)
}

func newWrite(d *dir) (tool.Tool, error) {
	return tool.CallFunc("fs_write_file",
		"Writes a whole text file: creates it or replaces all of its content. To change part of a file, use fs_replace_in_file.",
		bind(d, (*dir).write), tool.Idempotent(), tool.WithSpec(writing), d.versions("version"))
}

// writing marks tools that change files. They run alone, so that calls of a round that
// write and read the same file take effect in order.
func writing(s *tool.Spec) { s.Writes, s.Exclusive = true, true }

// versions drops an argument that is useful only if files must be read first.
func (d *dir) versions(argument string) tool.Option {
	if d.readFirst {
		return tool.Without()
	}
	return tool.Without(argument)
}

func (d *dir) write(ctx context.Context, in writeInput) (tool.Output, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.file(in.Path)
	if err != nil {
		return tool.Output{}, err
	}
	if err := d.expect(ctx, f, in.Version); err != nil {
		return tool.Output{}, err
	}
	if f.exists && f.size == int64(len(in.Content)) {
		if old, err := d.whole(ctx, f.name); err == nil && old == in.Content {
			return tool.Text(show(f.name) + " already has this content\n"), nil
		}
	}
	if err := d.put(ctx, f, in.Content); err != nil {
		return tool.Output{}, err
	}
	lines := strings.Count(in.Content, "\n")
	if in.Content != "" && !strings.HasSuffix(in.Content, "\n") {
		lines++
	}
	text := fmt.Sprintf("%s: %s, %s", show(f.name), count(int64(len(in.Content)), "byte"), count(int64(lines), "line"))
	if f.exists {
		text = fmt.Sprintf("replaced %s; it had %s", text, count(f.size, "byte"))
	} else {
		text = "created " + text
	}
	return changed(text+d.versioned(sumOf(in.Content))+"\n", f.name), nil
}

// count formats a number of things.
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func changed(text, name string) tool.Output {
	out := tool.Text(text)
	out.ChangedPaths = []string{name}
	return out
}

// file is a file that a call changes.
type file struct {
	name   string
	given  string // the name before following symbolic links
	exists bool
	size   int64
	mode   fs.FileMode // its permissions; zero, if it does not exist: the usual ones
}

// file returns the file at a path, which need not exist.
func (d *dir) file(path string) (f file, err error) {
	if f.given, err = d.Rel(path); err != nil {
		return f, err
	}
	if f.given == "." {
		return f, tool.Failure(CodeKind, "path %q is the root itself: name a file in it", path)
	}
	if f.name, err = d.resolve(f.given); err != nil {
		return f, err
	}
	if _, err := d.Lstat(f.name); errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	info, err := d.regular(f.name)
	if err != nil {
		return f, err
	}
	f.exists, f.size, f.mode = true, info.Size(), info.Mode().Perm()
	return f, nil
}

// current reads a file for editing. The file must have the version.
func (d *dir) current(ctx context.Context, f file, version string) (string, error) {
	if !f.exists {
		return "", d.explain(f.name, fs.ErrNotExist)
	}
	if err := d.expect(ctx, f, version); err != nil {
		return "", err
	}
	return d.whole(ctx, f.name)
}

// put replaces a file atomically: a reader, or a machine after a crash, sees the old
// content or the new. It creates missing directories.
func (d *dir) put(ctx context.Context, to file, content string) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	at, err := d.pin("write", to.name, !to.exists)
	if err != nil {
		return err
	}
	defer at.close()
	temp := path.Join(path.Dir(at.base), ".turnlog-"+rand.Text()+".tmp")
	f, err := at.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return d.explain(to.name, err)
	}
	_, err = f.WriteString(content)
	if err == nil && (to.exists || to.mode != 0) {
		err = f.Chmod(to.mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = at.Rename(temp, at.base)
	}
	if err != nil {
		_ = at.Remove(temp)
		return d.explain(to.name, err)
	}
	return nil
}

type deleteInput struct {
	Path      string `json:"path" jsonschema:"The file, link or directory, relative to the root."`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"Delete a directory and everything in it."`
}

// Describe describes the permission request.
func (in deleteInput) Describe() (kind, summary string, target any) {
	return describe("delete", "delete", in.Path)
}

func newDelete(d *dir) (tool.Tool, error) {
	return tool.CallFunc("fs_delete",
		"Deletes a file, a symbolic link or an empty directory or, with recursive, a directory and everything in it. It cannot be undone.",
		bind(d, (*dir).delete), tool.WithSpec(writing))
}

func (d *dir) delete(_ context.Context, in deleteInput) (tool.Output, error) {
	name, err := d.Rel(in.Path)
	if err != nil {
		return tool.Output{}, err
	}
	if name == "." {
		return tool.Output{}, tool.Denied("path %q is the root itself, which cannot be deleted", in.Path)
	}
	parent, err := d.resolve(path.Dir(name))
	if err != nil {
		return tool.Output{}, err
	}
	at, err := d.pin("delete", path.Join(parent, path.Base(name)), false)
	if err != nil {
		return tool.Output{}, err
	}
	defer at.close()
	info, err := at.Lstat(at.base)
	if err != nil {
		return tool.Output{}, d.explain(name, err)
	}
	if info.IsDir() && in.Recursive {
		err = at.RemoveAll(at.base)
	} else if err = at.Remove(at.base); err != nil && info.IsDir() && at.occupied() {
		return tool.Output{}, tool.Failure(CodeNotEmpty, "%s is not empty: set recursive to delete it and everything in it", show(name))
	}
	if err != nil {
		return tool.Output{}, d.explain(name, err)
	}
	return changed("deleted "+show(name)+"\n", name), nil
}

func (p *place) occupied() bool {
	entries, err := fs.ReadDir(p.FS(), p.base)
	return err == nil && len(entries) > 0
}
