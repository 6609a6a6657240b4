// Package skill offers skills as a tool: folders with a SKILL.md, whose text a
// model is given when it asks for it.
//
// The one idea: a model knows the name and the description of each skill from the
// tool's own description, and pays for a skill's text only when it activates it.
// The folders are looked at anew whenever tools are listed, so a skill that is added
// or mended is there at the next model call. Without skills there is no tool.
//
// A skill is a subfolder with a file SKILL.md that begins with front matter in YAML:
//
//	---
//	name: release-notes
//	description: How we write release notes
//	---
//
// The name is the folder's; other keys are for others. What is no skill by these
// rules is left out, and [Source.Problems] says why. If two folders have a skill of
// one name, the first counts. Files beside SKILL.md are listed with it; tools that
// read files can read them, since all paths are relative to the root.
//
// Each activation answers with the whole text. That a skill was activated before is
// no reason to hold it back: a compaction may have dropped it, and whichever worker
// runs the call does not know.
package skill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/tool"
)

// Tool is the name of the tool.
const Tool = "skill_activate"

const (
	file = "SKILL.md"

	maxName        = 64
	maxDescription = 1024 // characters
	maxResources   = 100  // files that are listed with a skill
)

// CodeUnknown is the code of a call for a skill that is not there.
const CodeUnknown = "no_such_skill"

// Skill is one skill.
type Skill struct {
	Name        string
	Description string
	Folder      string // relative to the root
}

// Problem says why a folder is no skill.
type Problem struct {
	Folder string
	Err    error
}

// Source offers the skills below some folders. It is safe for concurrent use.
type Source struct {
	root    string
	folders []string
}

// New returns the source of the skills in the subfolders of the folders, which are
// relative to the root. A folder that is not there has none, now.
func New(root string, folders ...string) (*Source, error) {
	if len(folders) == 0 {
		return nil, errors.New("skills: name the folders that hold them")
	}
	info, err := os.Stat(root)
	switch {
	case err != nil:
		return nil, fmt.Errorf("skills: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("skills: %s is not a folder", root)
	}
	clean := make([]string, len(folders))
	for i, f := range folders {
		clean[i] = path.Clean(strings.ReplaceAll(f, `\`, "/"))
		if !fs.ValidPath(clean[i]) {
			return nil, fmt.Errorf("skills: %q: use a path below the root", f)
		}
	}
	return &Source{root: root, folders: clean}, nil
}

// Name is skills.
func (s *Source) Name() string { return "skills" }

// Skills lists the skills that are there now, by name.
func (s *Source) Skills(ctx context.Context) ([]Skill, error) {
	found, _, err := s.look(ctx)
	return found, err
}

// Problems lists the folders that are meant as skills and are none.
func (s *Source) Problems(ctx context.Context) ([]Problem, error) {
	_, problems, err := s.look(ctx)
	return problems, err
}

type activateInput struct {
	Name string `json:"name" jsonschema:"The skill."`
}

// Tools returns the tool that activates skills, or none if there are no skills.
func (s *Source) Tools(ctx context.Context) ([]tool.Tool, error) {
	skills, err := s.Skills(ctx)
	if err != nil || len(skills) == 0 {
		return nil, err
	}
	var about strings.Builder
	about.WriteString("Gives the instructions of a skill. Activate the skill that fits before you work on something it is about. Skills:")
	names := make([]any, len(skills))
	for i, k := range skills {
		fmt.Fprintf(&about, "\n- %s: %s", k.Name, k.Description)
		names[i] = k.Name
	}
	activate, err := tool.Func(Tool, about.String(), s.activate, tool.ReadOnly(),
		tool.WithSchema(func(j *jsonschema.Schema) { j.Properties["name"].Enum = names }))
	if err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	return []tool.Tool{activate}, nil
}

func (s *Source) activate(ctx context.Context, in activateInput) (string, error) {
	skills, err := s.Skills(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(skills, func(k Skill) bool { return k.Name == in.Name })
	if i < 0 {
		return "", tool.Failure(CodeUnknown, "there is no skill %q now", in.Name)
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return "", fmt.Errorf("skills: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	_, body, err := read(root.FS(), skills[i].Folder)
	if err != nil {
		return "", tool.Failure(CodeUnknown, "skill %s: %v", in.Name, err)
	}
	return strings.TrimSpace(body) + "\n" + resources(root.FS(), skills[i].Folder), nil
}

// look reads all skills.
func (s *Source) look(ctx context.Context) ([]Skill, []Problem, error) {
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return nil, nil, fmt.Errorf("skills: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	var skills []Skill
	var problems []Problem
	for _, folder := range s.folders {
		entries, err := fs.ReadDir(root.FS(), folder)
		if err != nil {
			continue // it has no skills, now
		}
		for _, e := range entries {
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			at := path.Join(folder, e.Name())
			if _, err := fs.Stat(root.FS(), path.Join(at, file)); err != nil {
				continue
			}
			k, _, err := read(root.FS(), at)
			switch {
			case err != nil:
				problems = append(problems, Problem{Folder: at, Err: err})
			case !slices.ContainsFunc(skills, func(o Skill) bool { return o.Name == k.Name }):
				skills = append(skills, k)
			}
		}
	}
	slices.SortFunc(skills, func(a, b Skill) int { return cmp.Compare(a.Name, b.Name) })
	return skills, problems, nil
}

// read takes a skill's file apart.
func read(fsys fs.FS, folder string) (k Skill, body string, err error) {
	text, err := textfile.Read(fsys, path.Join(folder, file))
	if err != nil {
		return k, "", fmt.Errorf("%s: %w", file, err)
	}
	front, body, err := frontMatter(strings.ReplaceAll(text, "\r\n", "\n"))
	if err != nil {
		return k, "", err
	}
	var head struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	if err := wire.Safely(func() error { return yaml.Unmarshal([]byte(front), &head) }); err != nil {
		return k, "", fmt.Errorf("front matter of %s: %s", file, yaml.FormatError(err, false, false))
	}
	k = Skill{Name: head.Name, Description: strings.Join(strings.Fields(head.Description), " "), Folder: folder}
	return k, body, k.check()
}

// frontMatter cuts a file behind the front matter that it begins with.
func frontMatter(text string) (front, body string, err error) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "\ufeff"), "---\n")
	if ok {
		front, body, ok = strings.Cut("\n"+rest, "\n---\n")
	}
	if !ok {
		return "", "", fmt.Errorf("%s does not begin with front matter between two lines of ---", file)
	}
	return front, body, nil
}

func (k Skill) check() error {
	switch {
	case k.Name != path.Base(k.Folder):
		return fmt.Errorf("name %q is not that of the folder, %q", k.Name, path.Base(k.Folder))
	case len(k.Name) > maxName || strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("name %q: use 1 to %d of a-z, 0-9 and -", k.Name, maxName)
	case k.Description == "":
		return errors.New("there is no description")
	case utf8.RuneCountInString(k.Description) > maxDescription:
		return fmt.Errorf("the description is longer than %d characters", maxDescription)
	}
	return nil
}

// resources lists the files of a skill beside its text.
func resources(fsys fs.FS, folder string) string {
	var b strings.Builder
	n := 0
	_ = fs.WalkDir(fsys, folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() || name == path.Join(folder, file):
			return nil //nolint:nilerr // what cannot be listed is left out
		case n == maxResources:
			b.WriteString("- and more\n")
			return fs.SkipAll
		}
		n++
		b.WriteString("- " + name + "\n")
		return nil
	})
	if n == 0 {
		return ""
	}
	return "\nFiles of this skill:\n" + b.String()
}
