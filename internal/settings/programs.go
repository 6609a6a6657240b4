package settings

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/internal/nearest"
)

// Program is a program that runs until it is stopped.
type Program struct {
	Command string `json:"command"` // the words that start it
	Flags   []Flag `json:"flags"`
}

// Flag is a setting of a program.
type Flag struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Default  string   `json:"default,omitempty"`
	Usage    string   `json:"usage"`
	Variable string   `json:"variable"`
	Excludes []string `json:"excludes,omitempty"` // groups of names, of which only one can be set
}

// Describe returns the settings of a command.
func Describe(cmd *cobra.Command) Program {
	p := Program{Command: cmd.CommandPath()}
	cmd.InheritedFlags() // adds them to its own
	each(cmd, func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		p.Flags = append(p.Flags, Flag{f.Name, f.Value.Type(), f.DefValue, usage, Variable(f), f.Annotations[exclusive]})
	})
	return p
}

//go:embed programs/*.json
var programs embed.FS

// Programs lists the programs that read a file of settings. Their own tests keep the list up to date.
func Programs() (all []Program, err error) {
	files, err := programs.ReadDir("programs")
	if err != nil {
		return nil, fmt.Errorf("list programs: %w", err)
	}
	for _, f := range files {
		text, err := programs.ReadFile("programs/" + f.Name())
		if err != nil {
			return nil, fmt.Errorf("list programs: %w", err)
		}
		var p Program
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Check returns what is wrong with a file for the programs.
func (f *File) Check(all []Program) (problems []error) {
	wrong := func(section, name, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s: %s: %w", f.Path, section, name, fmt.Errorf(format, args...)))
	}
	for _, section := range slices.Sorted(maps.Keys(f.Sections)) {
		flags := make(map[string]Flag)
		var sections []string
		for _, p := range all {
			sections = append(sections, p.Command)
			for _, x := range p.Flags {
				if (section == All || section == p.Command) && x.Name != FileFlag {
					flags[x.Name] = x
				}
			}
		}
		if len(flags) == 0 {
			problems = append(problems, fmt.Errorf("%s: there is no program %q%s; sections are %s and %s",
				f.Path, section, nearest.Hint(section, sections), All, strings.Join(sections, ", ")))
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(f.Sections[section])) {
			v, x := f.Sections[section][name], flags[name]
			if x.Name == "" {
				wrong(section, name, "there is no such setting%s", nearest.Hint(name, slices.Sorted(maps.Keys(flags))))
			} else if v.List && !repeatable(x.Type) {
				wrong(section, name, "use one value, not a list")
			} else if err := x.parse(v.Texts[0]); err != nil {
				wrong(section, name, "%q: %w", v.Texts[0], err)
			}
		}
	}
	return problems
}

// parse returns an error for a text that is not a value of the flag's type.
func (x Flag) parse(text string) error {
	var err error
	switch x.Type {
	case "bool":
		if _, err = strconv.ParseBool(text); err != nil {
			return errors.New("use true or false")
		}
	case "int", "int64":
		if _, err = strconv.ParseInt(text, 10, 64); err != nil {
			return errors.New("use a whole number")
		}
	case "uint", "uint64":
		if _, err = strconv.ParseUint(text, 10, 64); err != nil {
			return errors.New("use a whole number, 0 or more")
		}
	case "float64":
		if _, err = strconv.ParseFloat(text, 64); err != nil {
			return errors.New("use a number")
		}
	case "duration":
		if _, err = time.ParseDuration(text); err != nil {
			return errors.New("use a time with its unit, such as 500ms, 30s or 2h30m")
		}
	}
	return nil
}

// Setting is the value of a flag, and its source.
type Setting struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
	From   string   `json:"from"` // "default", "file" or the name of a variable
}

// Show returns the settings that a program would have without a command line. It does not reveal secrets.
func (p Program) Show(f *File, getenv func(string) string) (all []Setting) {
	given := make(map[string]bool)
	var groups []string
	for _, x := range p.Flags {
		given[x.Name] = getenv(x.Variable) != ""
		groups = append(groups, x.Excludes...)
	}
	spread(given, groups)
	for _, x := range p.Flags {
		s := Setting{x.Name, []string{}, "default"}
		if text := strings.Trim(x.Default, "[]"); text != "" {
			s.Values = []string{text}
		}
		if v, ok := f.Of(p.Command, x.Name); ok && !given[x.Name] {
			s.Values, s.From = v.Texts, "file"
		}
		if text := getenv(x.Variable); text != "" {
			s.Values, s.From = valuesIn(x.Type, text).Texts, x.Variable
			if isSecret(x.Name) || x.Name == "user" || x.Name == "server" && strings.Contains(text, "@") {
				s.Values = []string{"(not shown)"}
			}
		}
		if x.Name != FileFlag {
			all = append(all, s)
		}
	}
	return all
}

// Schema returns the JSON schema of a file, for editors.
func Schema(all []Program) map[string]any {
	sections, every := make(map[string]any), make(map[string]any)
	for _, p := range all {
		own := make(map[string]any)
		for _, x := range p.Flags {
			if !isSecret(x.Name) && x.Name != FileFlag {
				own[x.Name] = x.schema()
				every[x.Name] = own[x.Name]
			}
		}
		sections[p.Command] = map[string]any{"type": "object", "additionalProperties": false, "properties": own}
	}
	sections[All] = map[string]any{
		"type": "object", "additionalProperties": false, "properties": every,
		"description": "settings of each program that has them",
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Turnlog's settings", "type": "object",
		"additionalProperties": false, "properties": sections,
	}
}

func (x Flag) schema() map[string]any {
	out := map[string]any{"description": x.Usage}
	switch {
	case x.Type == "bool":
		out["type"] = "boolean"
	case strings.HasPrefix(x.Type, "int"), strings.HasPrefix(x.Type, "uint"):
		out["type"] = "integer"
	case x.Type == "float64":
		out["type"] = "number"
	case repeatable(x.Type):
		out["type"], out["items"] = []string{"string", "array"}, map[string]any{"type": "string"}
	default:
		out["type"] = "string"
	}
	return out
}
