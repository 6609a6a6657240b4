package demo_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

// rewrite makes the test update testdata/answers.txt. Review the diff.
var update = golden.Flag()

// The file holds a prompt after each ">>> " and the answer below it.
func TestAnswersMatchTheRecordedOnes(t *testing.T) {
	t.Parallel()
	const file = "testdata/answers.txt"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root := project(t)
	var got strings.Builder
	for part := range strings.SplitSeq(string(raw), ">>> ") {
		prompt, _, _ := strings.Cut(part, "\n")
		if prompt != "" {
			got.WriteString(">>> " + prompt + "\n" + ask(t, root, prompt).answer + "\n")
		}
	}
	golden.Check(t, *update, file, got.String())
}

func TestRankingCountsThenReadsTheLongestFiles(t *testing.T) {
	t.Parallel()
	got := ask(t, project(t), "Which Go files here are the longest, and what do they do?")
	want := [][]string{
		{`fs_count {"exclude":"{vendor,node_modules,third_party}","include":"*.go","limit":5,"sort":"lines"}`},
		{
			`fs_read_file {"last_line":150,"path":"voice/speak_test.go"}`,
			`fs_read_file {"last_line":150,"path":"voice/speak.go"}`,
			`fs_read_file {"last_line":150,"path":"main.go"}`,
			`fs_read_file {"last_line":150,"path":"voice/doc.go"}`,
		},
	}
	if diff := cmp.Diff(want, got.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestToolErrorsAreReported(t *testing.T) {
	t.Parallel()
	root := project(t)
	for prompt, want := range map[string]string{
		"list ../secrets":                "fs_list_directory: path \"../secrets\" is outside the root",
		"read nothing.txt":               "fs_read_file: nothing.txt does not exist",
		"how many files are in nowhere?": "fs_count: nowhere does not exist",
	} {
		if got := ask(t, root, prompt).answer; !strings.HasPrefix(got, "I could not answer that:\n\n  "+want) {
			t.Errorf("%q is answered\n%s\nwant the error %s", prompt, got, want)
		}
	}
}

func TestOnlyOfferedToolsAreCalled(t *testing.T) {
	t.Parallel()
	tools, err := fs.New(project(t), fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	countOnly := slices.DeleteFunc(tools, func(one tool.Tool) bool { return one.Spec().Name != "fs_count" })
	for _, tt := range []struct {
		prompt string
		tools  []tool.Tool
		want   string
	}{
		{"list files", nil, "To answer that I would call the tool fs_list_directory, which is not offered here."},
		{"what do the longest Go files do?", countOnly, "To answer that I would call the tool fs_read_file, which is not"},
		{"the longest Go files", countOnly, "These are the longest of 4 Go files in this directory"},
		{"hello", nil, "I answer only a few kinds of questions. Ask me about the files here"},
	} {
		if got := askWith(t, tt.tools, tt.prompt).answer; !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q is answered\n%s\nwant\n%s", tt.prompt, got, tt.want)
		}
	}
}
