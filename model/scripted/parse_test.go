package scripted_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
)

func TestInvalidScriptsAreRejected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		source string
		want   string
	}{
		"empty":                  {"", "script s.yaml: the file is empty: write replies: with at least one reply"},
		"only a comment":         {"# nothing\n", "script s.yaml: the file is empty"},
		"a long template":        {"replies:\n  - text: '{{.Prompt}}" + strings.Repeat("x", 16<<10) + "'\n", "script s.yaml:2:11: a text with templates has at most 16 KiB"},
		"a repetition":           {"replies:\n  - text: '{{range 9}}{{end}}'\n", "script s.yaml:2:11: 9: a range must be over .Results, and not inside another range"},
		"a range in another":     {"replies:\n  - text: '{{range .Results}}{{if 1}}{{range .Results}}{{end}}{{end}}{{end}}'\n", "script s.yaml:2:11: .Results: a range must be over .Results, and not inside another range"},
		"a variable":             {"replies:\n  - text: '{{if 1}}a{{else}}{{$x := .Prompt}}{{end}}'\n", "script s.yaml:2:11: $x := .Prompt: variables are not allowed"},
		"a function":             {"replies:\n  - text: '{{(print .Prompt .Prompt).X}}'\n", "script s.yaml:2:11: print: only these functions are allowed: [and eq ge gt index le len lt ne not or slice]"},
		"a definition":           {"replies:\n  - text: '{{define \"x\"}}{{end}}'\n", "script s.yaml:2:11: replies[0].text defines a template, which is not allowed"},
		"another template":       {"replies:\n  - text: '{{template \"x\"}}'\n", "script s.yaml:2:11: {{template \"x\"}}: other templates are not allowed"},
		"no replies":             {"repeat: true\n", "script s.yaml: no replies"},
		"empty replies":          {"replies: []\n", "script s.yaml: no replies"},
		"replies is no list":     {"replies: hello\n", "script s.yaml:1:10: string was used where sequence is expected"},
		"not a mapping":          {"- text: hi\n", "script s.yaml:1:1: sequence was used where mapping is expected"},
		"just a word":            {"hello\n", "script s.yaml:1:1: string was used where mapping is expected"},
		"unknown field":          {"replies:\n  - txt: hi\n", `script s.yaml:2:5: unknown field "txt"`},
		"unknown top field":      {"reply: []\n", `script s.yaml:1:1: unknown field "reply"`},
		"number as text":         {"replies:\n  - text: 42\n", "script s.yaml:2:11: replies[0].text: want a string"},
		"text left out":          {"replies:\n  - text:\n", "script s.yaml:2:9: replies[0]: it says nothing"},
		"reply says nothing":     {"replies:\n  - delay: 1s\n", "script s.yaml:2:10: replies[0]: it says nothing: give it text, calls or error"},
		"duplicate key":          {"replies:\n  - text: a\n    text: b\n", `script s.yaml:3:5: mapping key "text" already defined at [2:5]`},
		"same key, quoted":       {"replies:\n  - calls: [{name: x, input: {a: 1, 'a': 2}}]\n", `script s.yaml:2:37: mapping key "a" already defined`},
		"bad indentation":        {"replies:\n  - text: hi\n\tx: 1\n", "script s.yaml:3:"},
		"unclosed list":          {"replies: [\n", "script s.yaml:1:10:"},
		"two documents":          {"replies:\n  - text: a\n---\nreplies:\n  - text: b\n", "script s.yaml:3:1: a file is one document"},
		"an empty second":        {"replies:\n  - text: a\n---\n", "script s.yaml:3:1: a file is one document"},
		"anchor":                 {"replies:\n  - text: &x hi\n", "script s.yaml:2:11: anchors, aliases and tags of YAML are refused"},
		"alias in an input":      {"replies:\n  - calls: [{name: x, input: {a: *b}}]\n", "script s.yaml:2:34: anchors, aliases and tags of YAML are refused"},
		"merge key":              {"replies:\n  - calls: [{name: x, input: {<<: {a: 1}}}]\n", "keys are strings"},
		"tag":                    {"replies:\n  - text: !!str 1\n", "script s.yaml:2:11: anchors, aliases and tags of YAML are refused"},
		"number as key":          {"replies:\n  - calls: [{name: x, input: {1: a}}]\n", `keys are strings: put "1" in quotes`},
		"infinite":               {"replies:\n  - calls: [{name: x, input: {a: .inf}}]\n", "replies[0].calls[0].input.a: want a plain value"},
		"name missing":           {"replies:\n  - calls: [{input: {}}]\n", "script s.yaml:2:10: replies[0]: a call has no name"},
		"input is a list":        {"replies:\n  - calls: [{name: x, input: [1]}]\n", "script s.yaml:2:30: replies[0].calls[0].input: want a mapping"},
		"delay without unit":     {"replies:\n  - {text: a, delay: 5}\n", "replies[0].delay: want a duration like 250ms or 2s"},
		"delay nonsense":         {"replies:\n  - {text: a, delay: soon}\n", "script s.yaml:2:22: replies[0].delay: want a duration"},
		"delay negative":         {"replies:\n  - {text: a, delay: -1s}\n", "script s.yaml:2:22: replies[0].delay: want a duration"},
		"chunk negative":         {"replies:\n  - {text: a, chunk: -1}\n", "script s.yaml:2:22: replies[0].chunk: want a whole number"},
		"chunk is huge":          {"replies:\n  - {text: a, chunk: 9223372036854775808}\n", "replies[0].chunk: want a whole number"},
		"usage negative":         {"replies:\n  - {text: a, usage: {input: -3}}\n", "replies[0].usage.input: want a whole number"},
		"usage of a fraction":    {"replies:\n  - {text: a, usage: {output: 1.5}}\n", "replies[0].usage.output: want a whole number"},
		"finish reason":          {"replies:\n  - {text: a, finish_reason: stop}\n", `"stop" is unknown: use one of "completed" "tool_call" `},
		"finish of a turn":       {"replies:\n  - {text: a, finish_reason: limit}\n", `"limit" is unknown`},
		"error class missing":    {"replies:\n  - error: {message: no}\n", `replies[0]: error.class "" is unknown: use one of "rate_limit" `},
		"error class unknown":    {"replies:\n  - error: {class: oops}\n", `replies[0]: error.class "oops" is unknown`},
		"text never given":       {"replies:\n  - {text: a, error: {class: server}}\n", "replies[0]: it always fails"},
		"nothing after failures": {"replies:\n  - error: {class: server, attempts: 2}\n", "replies[0]: it says nothing after"},
		"repeat too early":       {"replies:\n  - {text: a, repeat: true}\n  - text: b\n", "only the last reply can be repeated"},
		"repeat is no bool":      {"replies:\n  - text: a\nrepeat: yes\n", "script s.yaml:3:9: want a bool"},
		"not UTF-8":              {"replies:\n  - text: \"\xff\"\n", "script s.yaml:2:1: not UTF-8"},
		"template":               {"replies:\n  - text: \"{{.Prompt\"\n", "script s.yaml:2:11: template: replies[0].text:1: unclosed action"},
		"template in a block":    {"replies:\n  - text: |\n      one\n      two {{if}}\n", "script s.yaml:2:11: template: replies[0].text:2: missing value for if"},
		"template in an input": {
			"replies:\n  - calls:\n      - name: x\n        input: {a: [b, '{{nope}}']}\n",
			`script s.yaml:4:24: template: replies[0].calls[0].input.a[1]:1: function "nope" not defined`,
		},
		"nested in brackets": {"replies: " + strings.Repeat("[", 20_000), "nest deeper than 64"},
		"nested entries":     {strings.Repeat("- ", 20_000), "nest deeper than 64"},
		"empty entries":      {strings.Repeat("-\n", 20_000), "nest deeper than 64"},
		"nested by indents":  {indented(200), "nests deeper than 64"},
		"too large":          {strings.Repeat("#", 1<<20) + "\n", "script s.yaml: 1048577 bytes, at most 1048576"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := scripted.Parse("s.yaml", []byte(tt.source))
			if err == nil {
				t.Fatal("Parse accepts it")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse = %q, want %q in it", err, tt.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("Parse = %q, want one line", err)
			}
		})
	}
}

func indented(levels int) string {
	var b strings.Builder
	b.WriteString("replies:\n  - calls:\n      - name: x\n        input:\n")
	for i := range levels {
		b.WriteString(strings.Repeat(" ", 10+i) + "a:\n")
	}
	return b.String()
}

func TestModelKeepsNameAndSource(t *testing.T) {
	t.Parallel()
	source := []byte("\ufeffreplies: # said once\r\n  - text: hi\r\n")
	m, err := scripted.Parse("some/where/hello.yaml", source)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name() != "scripted:hello.yaml" {
		t.Errorf("Name = %q, want scripted:hello.yaml", m.Name())
	}
	if !bytes.Equal(m.Source(), source) {
		t.Errorf("Source = %q, want %q", m.Source(), source)
	}
	m.Source()[0] = 'x'
	if !bytes.Equal(m.Source(), source) {
		t.Error("Source returns the model's own bytes")
	}
}

func TestLoadReadsAScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, large := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "large.yaml")
	write(t, good, "replies:\n  - text: hi\n")
	write(t, large, strings.Repeat(" ", 1<<20+1))

	m, err := scripted.Load(good)
	if err != nil || m.Name() != "scripted:good.yaml" {
		t.Fatalf("Load = %v, %v", m, err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "none.yaml: no such file or directory",
		dir:                             "is a directory",
		large:                           "1048577 bytes, at most 1048576",
	} {
		if _, err := scripted.Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%s) = %v, want %q in it", path, err, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("replies:\n  - text: |\n      {{.Prompt}}\n    calls: [{name: x, input: {a: [1, 'b', null]}}]\nrepeat: true\n")
	f.Add("replies: [{error: {class: server, retry_after: 1s, attempts: 2}, text: ok, chunk: 3}]")
	f.Add("---\nreplies:\n  - text: >-\n      a\n\n      b\n...\n")
	f.Add("0\n---")
	f.Add("replies: [{text: '{{range .Results}}{{if eq .Text \"\"}}x{{else}}{{$.Prompt}}{{end}}{{end}}{{(index .Results 0).JSON.a}}'}]")
	f.Add("a: &b\n  - *b\n? c\n: !!d {<<: 1}\n--- >-\n")
	f.Fuzz(func(t *testing.T, source string) {
		m, err := scripted.Parse("f.yaml", []byte(source))
		if (m == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", m, err)
		}
		if err != nil {
			return
		}
		result := content.NewResult("c", "x", content.StatusOK, `{"a":[1,2,3]}`)
		transcript := []content.Item{content.UserText("hello"), content.NewItem(content.Tool, content.ResultPart(result))}
		took := allocated.By(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, cancel) // a script may wait
			_, _ = m.Call(ctx, model.Request{Transcript: transcript}, func(content.Delta) {})
		})
		if took > 128<<20 {
			t.Fatalf("a reply took %d bytes", took)
		}
	})
}
