package fs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

type replaceInput struct {
	Path string `json:"path" jsonschema:"The file, relative to the root."`
	Old  string `json:"old" jsonschema:"The text to replace, exactly as it is in the file, with indentation and line breaks. Include enough surrounding lines to make it unique."`
	New  string `json:"new" jsonschema:"The text to put in its place. Empty to delete it."`
	All  bool   `json:"all,omitempty" jsonschema:"Replace every match instead of a single one."`

	Version string `json:"version,omitempty" jsonschema:"The version of the file, as fs_read_file or the last edit returned it."`
}

// Describe describes the permission request.
func (in replaceInput) Describe() (kind, summary string, target any) {
	return describe("edit", "edit", in.Path)
}

func newReplace(d *dir) (tool.Tool, error) {
	return tool.CallFunc("fs_replace_in_file",
		"Replaces a text in a file. The text must match exactly and, unless all is set, must occur only once; "+
			"otherwise nothing is changed and the result says how many matches there are. Read the file first.",
		bind(d, (*dir).replace), tool.WithSpec(writing), d.versions("version"), tool.WithSchema(func(s *jsonschema.Schema) { s.Properties["old"].MinLength = new(1) }))
}

func (d *dir) replace(ctx context.Context, in replaceInput) (tool.Output, error) {
	if in.Old == in.New {
		return tool.Output{}, tool.Failure(CodeUnchanged, "old and new are the same text")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.file(in.Path)
	if err != nil {
		return tool.Output{}, err
	}
	content, err := d.current(ctx, f, in.Version)
	if err != nil {
		return tool.Output{}, err
	}
	old, new := in.fit(content)
	lines := linesOf(content, old)
	switch {
	case len(lines) == 0:
		return tool.Output{}, tool.Retry(in.notFound(f.name, content))
	case len(lines) > 1 && !in.All:
		return tool.Output{}, tool.Retry(fmt.Sprintf("old occurs in %s %d times (%s): include more surrounding lines, or set all to replace every match. Nothing was changed.",
			show(f.name), len(lines), where(lines)))
	}
	content = strings.ReplaceAll(content, old, new)
	if err := d.put(ctx, f, content); err != nil {
		return tool.Output{}, err
	}
	return changed(fmt.Sprintf("replaced %d in %s (%s)%s\n", len(lines), show(f.name), where(lines), d.versioned(sumOf(content))), f.name), nil
}

// fit converts the texts to the file's line endings: models write \n for the \r\n
// that they cannot see.
func (in replaceInput) fit(content string) (old, new string) {
	if strings.Contains(content, in.Old) || !strings.Contains(content, "\r\n") || strings.Contains(in.Old, "\r") {
		return in.Old, in.New
	}
	crlf := strings.NewReplacer("\n", "\r\n")
	return crlf.Replace(in.Old), crlf.Replace(in.New)
}

// linesOf returns the line number of each match.
func linesOf(content, old string) []int {
	var lines []int
	pieces := strings.Split(content, old)
	line := 1
	for _, piece := range pieces[:len(pieces)-1] {
		line += strings.Count(piece, "\n")
		lines = append(lines, line)
		line += strings.Count(old, "\n")
	}
	return lines
}

func where(lines []int) string {
	const most = 10
	texts := make([]string, 0, most)
	for _, n := range lines[:min(most, len(lines))] {
		texts = append(texts, strconv.Itoa(n))
	}
	text := "line "
	if len(lines) > 1 {
		text = "lines "
	}
	text += strings.Join(texts, ", ")
	if len(lines) > most {
		text += ", …"
	}
	return text
}

// notFound explains why old does not match.
func (in replaceInput) notFound(name, content string) string {
	text := "old is not in " + show(name)
	if n := similar(content, in.Old); n > 0 {
		return fmt.Sprintf("%s, but the lines from %d on differ from it only in spaces: read them and copy them exactly. Nothing was changed.", text, n)
	}
	return text + ": read the file again and copy the text exactly, with its spaces and line breaks. Nothing was changed."
}

// similar returns the line where content equals old except for white space within and around lines,
// or 0.
func similar(content, old string) int {
	have, want := squeezed(content), squeezed(strings.Trim(old, "\n"))
	if strings.Join(want, "") == "" {
		return 0
	}
	for i := range len(have) - len(want) + 1 {
		if slices.Equal(have[i:i+len(want)], want) {
			return i + 1
		}
	}
	return 0
}

func squeezed(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return lines
}
