package agentfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Folder is a folder of agent files. It is read each time, so changes apply to the next
// session.
type Folder struct {
	Path  string
	Known Known // what the files may refer to
}

func extensions() []string { return []string{".yaml", ".yml"} }

// IsFile reports whether a text is the path of an agent file, rather than an agent's name.
func IsFile(text string) bool {
	return filepath.Base(text) != text || slices.Contains(append(extensions(), ".json"), filepath.Ext(text))
}

// Find returns the agent of that name. It returns ErrUnknown if the folder has none, or
// has another version.
func (f Folder) Find(_ context.Context, name, version string) (*Definition, error) {
	all, err := f.List()
	if i := slices.IndexFunc(all, func(d *Definition) bool { return d.Name == name }); i >= 0 {
		v, err := all[i].Version()
		if err != nil || version == "" || v == version {
			return all[i], err
		}
		return nil, fmt.Errorf("agent %q in %s, version %s: %w", name, f.Path, version, ErrUnknown)
	}
	problems, bad := errors.AsType[Problems](err)
	if err != nil && !bad {
		return nil, err
	}
	if own := problems.of(name); len(own) > 0 {
		return nil, own
	}
	return nil, fmt.Errorf("agent %q in %s: %w", name, f.Path, ErrUnknown)
}

// of returns the problems of the file that probably defines an agent.
func (p Problems) of(agent string) Problems {
	return slices.DeleteFunc(slices.Clone(p), func(p Problem) bool { return baseName(p.File) != agent })
}

// List returns the agents of the folder, by name. If some files cannot be used it returns
// the others, and [Problems].
func (f Folder) List() ([]*Definition, error) {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	var all []*Definition
	var problems Problems
	files := make(map[string]string)
	for _, e := range entries {
		if e.IsDir() || !slices.Contains(extensions(), filepath.Ext(e.Name())) {
			continue
		}
		file := filepath.Join(f.Path, e.Name())
		d, err := f.Known.Load(file)
		if bad, ok := errors.AsType[Problems](err); ok {
			problems = append(problems, bad...)
			continue
		}
		if err != nil {
			return nil, err
		}
		if other, twice := files[d.Name]; twice {
			problems = append(problems, Problem{File: file, Message: fmt.Sprintf("agent %s is also in %s", d.Name, other)})
			continue
		}
		files[d.Name] = file
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *Definition) int { return cmp.Compare(a.Name, b.Name) })
	if len(problems) > 0 {
		return all, problems
	}
	return all, nil
}

// Delegates returns the agents to which these delegate, directly or through others, each once,
// sorted by name.
func Delegates(ctx context.Context, find FindFunc, of ...*Definition) ([]*Definition, error) {
	var all []*Definition
	for len(of) > 0 {
		d := of[0]
		of = of[1:]
		for _, name := range d.Agents {
			if slices.ContainsFunc(all, func(o *Definition) bool { return o.Name == name }) {
				continue
			}
			other, err := find(ctx, name, "")
			if err != nil {
				return nil, fmt.Errorf("agent %s delegates: %w", d.Name, err)
			}
			all, of = append(all, other), append(of, other)
		}
	}
	slices.SortFunc(all, func(a, b *Definition) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
