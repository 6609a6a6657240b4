package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/internal/yamltext"
)

// All is the section of a file whose settings apply to every program that has the flag.
const All = "all"

// File is a file of settings: for each program, by the words of its command, the values of its flags.
type File struct {
	Path     string
	Sections map[string]map[string]Value
}

// Value is the value of a setting, or several values of a repeatable flag.
type Value struct {
	Texts []string
	List  bool
}

// maxFile is how many bytes a file may have.
const maxFile = 64 << 10

// isSecret reports whether files may not set a flag because its value is a secret: files of settings are copied and stored
// in many places.
func isSecret(flag string) bool { return flag == "password" || flag == "token" }

// Read reads a file. It does not check whether programs have such flags.
func Read(path string) (*File, error) {
	text, err := textfile.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	var raw map[string]map[string]any
	if err := yamltext.Decode(text, &raw); err != nil && !errors.Is(err, yamltext.ErrEmpty) {
		return nil, fmt.Errorf("%s: the file does not consist of sections of settings: %w", path, err)
	}
	f := &File{Path: path, Sections: make(map[string]map[string]Value)}
	for _, section := range slices.Sorted(maps.Keys(raw)) {
		f.Sections[section] = make(map[string]Value)
		for _, name := range slices.Sorted(maps.Keys(raw[section])) {
			v, err := valueOf(name, raw[section][name])
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %s: %w", path, section, name, err)
			}
			f.Sections[section][name] = v
		}
	}
	return f, nil
}

var (
	errNoValue = errors.New("the value is missing: add one, or remove the line")
	errSecret  = errors.New("secrets are not allowed in a file of settings: use an environment variable, or creds with a file of credentials")
)

func valueOf(name string, raw any) (v Value, err error) {
	if isSecret(name) {
		return v, errSecret
	}
	switch raw := raw.(type) {
	case nil:
		return v, errNoValue
	case []any:
		v.List = true
		if len(raw) == 0 {
			return v, errNoValue
		}
		for _, x := range raw {
			text, err := textOf(name, x)
			if err != nil {
				return v, err
			}
			v.Texts = append(v.Texts, text)
		}
		return v, nil
	default:
		text, err := textOf(name, raw)
		return Value{Texts: []string{text}}, err
	}
}

func textOf(name string, raw any) (string, error) {
	switch raw := raw.(type) {
	case string:
		if name == "server" && strings.Contains(raw, "@") {
			return "", errSecret
		}
		return raw, nil
	case bool, int, int64, uint64:
		return fmt.Sprint(raw), nil
	case float64:
		return strconv.FormatFloat(raw, 'f', -1, 64), nil
	}
	return "", fmt.Errorf("%v is not a text, a number, true, false, or a list of these", raw)
}

// Of returns the value of a program's flag in the file.
func (f *File) Of(program, flag string) (Value, bool) {
	if f == nil {
		return Value{}, false
	}
	v, ok := f.Sections[program][flag]
	if !ok {
		v, ok = f.Sections[All][flag]
	}
	return v, ok
}
