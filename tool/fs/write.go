package fs

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

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
	return tool.Func("fs_write_file",
		"Writes a whole text file: creates it or replaces all of its content. To change part of a file, use fs_replace_in_file.",
		d.write, tool.Idempotent(), tool.WithSpec(writing), d.versions("version"))
}

// writing marks tools that change files. They run alone, so that calls of a round that
// write and read the same file take effect in order.
func writing(s *tool.Spec) { s.Writes, s.Exclusive = true, true }

// versions drops an argument that matters only if files must be read first.
func (d *dir) versions(argument string) tool.Option {
	return tool.WithSchema(func(s *jsonschema.Schema) {
		if !d.readFirst {
			delete(s.Properties, argument)
			s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(name string) bool { return name == argument })
		}
	})
}

func (d *dir) write(ctx context.Context, in writeInput) (tool.Output, error) {
	name, err := d.Rel(in.Path)
	if err != nil {
		return tool.Output{}, err
	}
	if name == "." {
		return tool.Output{}, tool.Failure(CodeKind, "path %q is the root itself: name a file in it", in.Path)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name, err = d.resolve(name)
	if err != nil {
		return tool.Output{}, err
	}
	old, mode, err := d.replaceable(name)
	if err != nil {
		return tool.Output{}, err
	}
	if err := d.expect(name, in.Version); err != nil {
		return tool.Output{}, err
	}
	content := []byte(in.Content)
	if mode == 0 {
		if err := d.MkdirAll(path.Dir(name), 0o755); err != nil {
			return tool.Output{}, d.explain(path.Dir(name), err)
		}
	} else if old == int64(len(content)) && d.holds(name, content) {
		return tool.Text(show(name) + " already has this content\n"), nil
	}
	if err := d.put(ctx, name, content, mode); err != nil {
		return tool.Output{}, err
	}
	size := count(len(content), "byte") + ", " + count(lines(content), "line")
	text := fmt.Sprintf("created %s: %s", show(name), size)
	if mode != 0 {
		text = fmt.Sprintf("replaced %s: %s; it had %s", show(name), size, count(int(old), "byte"))
	}
	return changed(text+d.versioned(content)+"\n", name), nil
}

// lines counts the lines of a text. The last one may lack a newline.
func lines(text []byte) int {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// count formats a number of things.
func count(n int, what string) string {
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

// replaceable returns the size and mode of the file that a write would replace. The
// mode is zero if there is none.
func (d *dir) replaceable(name string) (size int64, mode fs.FileMode, err error) {
	info, err := d.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, 0, nil
	case err != nil:
		return 0, 0, d.explain(name, err)
	case info.IsDir():
		return 0, 0, tool.Failure(CodeKind, "%s is a directory: name a file in it", show(name))
	case !info.Mode().IsRegular():
		return 0, 0, tool.Failure(CodeKind, "%s is not a regular file", show(name))
	}
	return info.Size(), info.Mode().Perm() | modeExists, nil
}

// modeExists distinguishes a file without permissions from no file.
const modeExists = fs.ModeTemporary

func (d *dir) holds(name string, content []byte) bool {
	old, err := d.ReadFile(name)
	return err == nil && bytes.Equal(old, content)
}

// put replaces a file atomically: a reader, or a machine after a crash, sees the old
// content or the new. A new file gets the usual permissions; a replaced one keeps its
// own.
func (d *dir) put(ctx context.Context, name string, content []byte, mode fs.FileMode) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	temp := path.Join(path.Dir(name), ".turnlog-"+rand.Text()+".tmp")
	f, err := d.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return d.explain(name, err)
	}
	defer func() {
		if err != nil {
			_ = d.Remove(temp)
		}
	}()
	_, err = f.Write(content)
	if err == nil && mode != 0 {
		err = f.Chmod(mode.Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = d.Rename(temp, name)
	}
	if err != nil {
		return d.explain(name, err)
	}
	return nil
}

type makeDirectoryInput struct {
	Path string `json:"path" jsonschema:"The directory, relative to the root. Missing parents are created too."`
}

// Describe describes the permission request.
func (in makeDirectoryInput) Describe() (kind, summary string, target any) {
	return describe("mkdir", "make directory", in.Path)
}

func newMakeDirectory(d *dir) (tool.Tool, error) {
	return tool.Func("fs_make_directory",
		"Creates a directory. An existing one is left unchanged. fs_write_file creates the directories that it needs.",
		d.makeDirectory, tool.Idempotent(), tool.WithSpec(func(s *tool.Spec) { s.Exclusive = true }))
}

func (d *dir) makeDirectory(_ context.Context, in makeDirectoryInput) (string, error) {
	name, err := d.Rel(in.Path)
	if err != nil {
		return "", err
	}
	if info, err := d.Stat(name); err == nil {
		if !info.IsDir() {
			return "", tool.Failure(CodeKind, "%s is a file: choose another name, or delete it first", show(name))
		}
		return show(name) + "/ already exists\n", nil
	}
	if err := d.MkdirAll(name, 0o755); err != nil {
		return "", d.explain(name, err)
	}
	return "created " + show(name) + "/\n", nil
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
	return tool.Func("fs_delete",
		"Deletes a file, a symbolic link or an empty directory or, with recursive, a directory and everything in it. It cannot be undone.",
		d.delete, tool.WithSpec(writing))
}

func (d *dir) delete(_ context.Context, in deleteInput) (tool.Output, error) {
	name, err := d.Rel(in.Path)
	if err != nil {
		return tool.Output{}, err
	}
	if name == "." {
		return tool.Output{}, tool.Denied("path %q is the root itself, which cannot be deleted", in.Path)
	}
	info, err := d.Lstat(name)
	if err != nil {
		return tool.Output{}, d.explain(name, err)
	}
	if info.IsDir() && in.Recursive {
		err = d.RemoveAll(name)
	} else if err = d.Remove(name); err != nil && info.IsDir() && d.occupied(name) {
		return tool.Output{}, tool.Failure(CodeNotEmpty, "%s is not empty: set recursive to delete it and everything in it", show(name))
	}
	if err != nil {
		return tool.Output{}, d.explain(name, err)
	}
	return changed("deleted "+show(name)+"\n", name), nil
}

func (d *dir) occupied(name string) bool {
	entries, err := fs.ReadDir(d.FS(), name)
	return err == nil && len(entries) > 0
}
