package demo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/demo"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

// disclaimer begins every answer.
const disclaimer = `This is Turnlog's offline demo model: no language model, only rules that plan calls of file tools.
Choose another one with --model, for example --model scripted:FILE.

`

// conversation is a question with its tool calls and its answer.
type conversation struct {
	answer string     // without the disclaimer
	calls  [][]string // by round: tool and input
	items  []content.Item
	specs  []tool.Spec
}

// project writes a small project and returns its directory.
func project(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"README.md": "# Parrot\n\n[![badge](x)](y)\n\nParrot repeats what it hears. It has no opinion.\n\n## Use\n\nTalk to it.\n",
		"go.mod":    "module example.org/parrot\n\ngo 1.26\n",
		"main.go": "// Command parrot listens and repeats.\npackage main\n\nimport \"example.org/parrot/voice\"\n\n" +
			"func main() { voice.Speak(\"hello\") }\n",
		"voice/doc.go": "// Package voice turns words into [Sound], and\n// keeps them short.\npackage voice\n",
		"voice/speak.go": "package voice\n\nimport \"strings\"\n\n// Sound is what is heard.\ntype Sound string\n\n" +
			"// Speak says text once.\n//\n// It never shouts.\nfunc Speak(text string) Sound {\n\tif text == \"\" {\n\t\treturn \"\"\n\t}\n" +
			"\treturn Sound(strings.ToLower(text))\n}\n\nfunc (s Sound) Loud() bool { return false }\n\nfunc hush() {}\n",
		"voice/speak_test.go":     "package voice_test\n\n" + strings.Repeat("// A line.\n", 40) + "\nfunc TestSpeak(t *testing.T) {}\n\nfunc help() {}\n",
		"docs/guide.md":           "Guide\n=====\n\nHow to keep a parrot.\n",
		"tools/gen.py":            "#!/usr/bin/env python3\n# Copyright Parrot People\n\n\"\"\"Makes feathers out of words.\"\"\"\n\nimport os\n\n\nclass Feather:\n    pass\n\n\ndef make():\n    return Feather()\n",
		"vendor/other/giant.go":   "package other\n" + strings.Repeat("// long\n", 500),
		"voice/deep/er/sound.txt": "a Sound in the deep\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// ask runs the prompt as a session would, with the file tools for root.
func ask(t testing.TB, root, prompt string) conversation {
	t.Helper()
	tools, err := fs.New(root, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return askWith(t, tools, prompt)
}

func askWith(t testing.TB, tools []tool.Tool, prompt string) conversation {
	t.Helper()
	r := model.Request{Attempt: 1, Transcript: []content.Item{content.UserText(prompt)}}
	byName := make(map[string]tool.Tool)
	for _, one := range tools {
		byName[one.Spec().Name] = one
		r.Tools = append(r.Tools, one.Spec())
	}
	c := conversation{specs: r.Tools}
	for range 4 {
		reply, err := demo.New().Call(t.Context(), r, func(content.Delta) {})
		if err != nil {
			t.Fatal(err)
		}
		r.Transcript = append(r.Transcript, reply.Items...)
		if reply.FinishReason == content.Completed {
			c.items = r.Transcript
			var honest bool
			c.answer, honest = strings.CutPrefix(reply.Items[0].Text(), disclaimer)
			if !honest {
				t.Errorf("the answer to %q lacks the disclaimer:\n%s", prompt, c.answer)
			}
			return c
		}
		var lines []string
		for i, call := range reply.Items[0].Calls() {
			lines = append(lines, call.Name+" "+string(call.Input))
			outcome := tool.Invoke(t.Context(), byName[call.Name], tool.Call{
				ID: content.CallID(fmt.Sprintf("c%d", i)), Name: call.Name, Input: call.Input, Attempt: 1,
			})
			r.Transcript = append(r.Transcript, content.NewItem(content.Tool, content.ResultPart(outcome.Result)))
		}
		c.calls = append(c.calls, lines)
	}
	t.Fatalf("%q has no answer after four rounds: %q", prompt, c.calls)
	return c
}
