// Package skill offers skills as a tool: folders with a SKILL.md file, whose text a model
// gets on request.
//
// A model sees the name and description of each skill in the tool's description, and uses
// tokens for the text only when it activates the skill. The folders are read whenever tools
// are listed, so a new or changed skill is available at the next model call. Without skills
// there is no tool.
//
// A skill is a subfolder with a file SKILL.md that begins with YAML front matter:
//
//	---
//	name: release-notes
//	description: How we write release notes
//	---
//
// The name must be the folder's. Other keys are ignored. A folder that breaks these
// rules is left out, and [Source.List] says why. If two folders have a skill with
// the same name, the first wins. The other files of the folder are listed with the
// text, with paths relative to the root, for tools that read files.
//
// Every activation returns the whole text, even if the model has had it before: a
// compaction may have dropped it, and the worker that runs the call does not know.
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

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/internal/yamltext"
	"github.com/turnlog/turnlog/tool"
)

// Tool is the name of the tool.
const Tool = "skill_activate"

const (
	file = "SKILL.md"

	maxName        = 64
	maxDescription = 1024 // characters
	maxResources   = 100  // files listed with a skill
)

// CodeUnknown is the code for a skill that does not exist.
const CodeUnknown = "no_such_skill"

// Skill is one skill.
type Skill struct {
	Name        string
	Description string
	Folder      string // relative to the root

	body string
}

// Problem says why a folder is not a skill.
type Problem struct {
	Folder string
	Err    error
}

// Source offers the skills in a list of folders. It is safe for concurrent use.
type Source struct {
	root    fs.FS
	folders []string
}

// New returns the source of the skills in the subfolders of the folders, which are
// relative to the root. A folder need not exist yet. The root stays open as long as the
// source is in use.
func New(root string, folders ...string) (*Source, error) {
	if len(folders) == 0 {
		return nil, errors.New("skills: name the folders that contain them")
	}
	clean := make([]string, len(folders))
	for i, f := range folders {
		clean[i] = path.Clean(strings.ReplaceAll(f, `\`, "/"))
		if !fs.ValidPath(clean[i]) {
			return nil, fmt.Errorf("skills: %q: use a path below the root", f)
		}
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	return &Source{root: r.FS(), folders: clean}, nil
}

// Name returns "skills".
func (s *Source) Name() string { return "skills" }

type activateInput struct {
	Name string `json:"name" jsonschema:"The skill."`
}

// Tools returns the tool that activates skills, or none if there are no skills.
func (s *Source) Tools(ctx context.Context) ([]tool.Tool, error) {
	skills, _, err := s.List(ctx)
	if err != nil || len(skills) == 0 {
		return nil, err
	}
	var about strings.Builder
	about.WriteString("Returns the instructions of a skill. Activate the matching skill before you work on something that it covers. Skills:")
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
	skills, _, err := s.List(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(skills, func(k Skill) bool { return k.Name == in.Name })
	if i < 0 {
		return "", tool.Failure(CodeUnknown, "there is no skill %q", in.Name)
	}
	return strings.TrimSpace(skills[i].body) + "\n" + resources(s.root, skills[i].Folder), nil
}

// List returns the current skills, sorted by name, and the folders that look like
// skills but are not.
func (s *Source) List(ctx context.Context) ([]Skill, []Problem, error) {
	var skills []Skill
	var problems []Problem
	for _, folder := range s.folders {
		entries, err := fs.ReadDir(s.root, folder)
		if err != nil {
			continue // it does not exist yet
		}
		for _, e := range entries {
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			at := path.Join(folder, e.Name())
			if _, err := fs.Stat(s.root, path.Join(at, file)); err != nil {
				continue
			}
			k, err := read(s.root, at)
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

// read parses a skill's file.
func read(fsys fs.FS, folder string) (k Skill, err error) {
	text, err := textfile.Read(fsys, path.Join(folder, file))
	if err != nil {
		return k, fmt.Errorf("%s: %w", file, err)
	}
	front, body, err := frontMatter(strings.ReplaceAll(text, "\r\n", "\n"))
	if err != nil {
		return k, err
	}
	var head struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	if err := yamltext.Decode([]byte(front), &head); err != nil {
		return k, fmt.Errorf("front matter of %s: %w", file, err)
	}
	k = Skill{Name: head.Name, Description: strings.Join(strings.Fields(head.Description), " "), Folder: folder, body: body}
	return k, k.check()
}

// frontMatter splits a file into its front matter and its body.
func frontMatter(text string) (front, body string, err error) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "\ufeff"), "---\n")
	if ok {
		front, body, ok = strings.Cut("\n"+rest, "\n---\n")
	}
	if !ok {
		return "", "", fmt.Errorf("%s does not begin with front matter, which is between two lines of ---", file)
	}
	return front, body, nil
}

func (k Skill) check() error {
	switch {
	case k.Name != path.Base(k.Folder):
		return fmt.Errorf("name %q differs from the folder name %q", k.Name, path.Base(k.Folder))
	case len(k.Name) > maxName || strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("name %q: use 1 to %d of a-z, 0-9 and -", k.Name, maxName)
	case k.Description == "":
		return errors.New("the description is missing")
	case utf8.RuneCountInString(k.Description) > maxDescription:
		return fmt.Errorf("the description is longer than %d characters", maxDescription)
	}
	return nil
}

// resources lists the other files of a skill.
func resources(fsys fs.FS, folder string) string {
	var b strings.Builder
	n := 0
	_ = fs.WalkDir(fsys, folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() || name == path.Join(folder, file):
			return nil //nolint:nilerr // leave out what cannot be listed
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
