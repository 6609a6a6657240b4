package demo_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

// rewrite makes TestAnswers write testdata/answers.txt anew; read the difference.
var rewrite = flag.Bool("rewrite", false, "write the answers down instead of comparing them")

// TestAnswers compares all that the model says with testdata/answers.txt, in which
// every prompt stands behind >>> and what it is answered below.
func TestAnswers(t *testing.T) {
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
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.Split(string(raw), "\n"), strings.Split(got.String(), "\n")); diff != "" && !*rewrite {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestTheLongestFilesTakeTwoRounds(t *testing.T) {
	t.Parallel()
	got := ask(t, project(t), "Which Go files here are the longest, and what do they do?")
	want := [][]string{
		{`fs_count {"include":"*.go","exclude":"{vendor,node_modules,third_party,.venv,venv,__pycache__}","sort":"lines","limit":10}`},
		{
			`fs_read_file {"path":"voice/speak_test.go","last_line":160}`,
			`fs_read_file {"path":"voice/speak.go","last_line":160}`,
			`fs_read_file {"path":"main.go","last_line":160}`,
			`fs_search {"pattern":"^(func|type) ","include":"{voice/speak_test.go,voice/speak.go,main.go}","limit":1000}`,
			`fs_search {"pattern":"^(//|/\\*)? ?(Package|Command) [a-z]\\w* ","include":"*.go","exclude":"*/*","context":6,"limit":5}`,
			`fs_search {"pattern":"^(//|/\\*)? ?(Package|Command) [a-z]\\w* ","include":"voice/*.go","context":6,"limit":20}`,
		},
	}
	if diff := cmp.Diff(want, got.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(got.failed) > 0 {
		t.Errorf("tools complained: %q", got.failed)
	}
}

func TestWhatIsNotUnderstoodGetsExamples(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{"write me a poem", "help"} {
		got := ask(t, project(t), prompt)
		for _, want := range []string{"Which Go files here are the longest", "Where is NewServer defined?", "What is in this project?", "README.md"} {
			if !strings.Contains(got.answer, want) {
				t.Errorf("the answer to %q lacks %q:\n%s", prompt, want, got.answer)
			}
		}
	}
}

func TestErrorsOfToolsAreReported(t *testing.T) {
	t.Parallel()
	root := project(t)
	for prompt, want := range map[string]string{
		"list ../secrets":                    "I could not list ../secrets:\n\n  fs_list_directory: path \"../secrets\" is outside the root",
		"read nothing.txt":                   "I could not read nothing.txt:\n\n  fs_read_file: nothing.txt does not exist",
		"search for x in nowhere":            "I could not search nowhere:\n\n  fs_search: nowhere does not exist",
		"how many files are in nowhere?":     "I could not count in nowhere:\n\n  fs_count: nowhere does not exist",
		"the longest files in nowhere":       "I could not count the lines in nowhere:\n\n  fs_count: nowhere does not exist",
		"where is Speak defined in nowhere?": "I could not search nowhere:\n\n  fs_search: nowhere does not exist",
		"show lines 90-95 of go.mod":         "I could not read go.mod:\n\n  fs_read_file: Invalid arguments: first_line: is 90, but go.mod has 3 lines",
	} {
		if got := ask(t, root, prompt); !strings.HasPrefix(got.answer, want) {
			t.Errorf("%q is answered\n%s\nwant\n%s", prompt, got.answer, want)
		}
	}
}

func TestOnlyToolsOnOfferAreCalled(t *testing.T) {
	t.Parallel()
	tools, err := fs.New(project(t), fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	only := func(names ...string) []tool.Tool {
		var some []tool.Tool
		for _, one := range tools {
			for _, name := range names {
				if one.Spec().Name == name {
					some = append(some, one)
				}
			}
		}
		return some
	}
	for _, tt := range []struct {
		prompt string
		tools  []tool.Tool
		want   string
	}{
		{"list files", nil, "I answer questions about files, and no file tool is on offer here."},
		{"search for x", only("fs_count", "fs_find"), "I would answer this with the tool fs_search, but it is not on offer here. On offer are:\nfs_count, fs_find."},
		{"hello", only("fs_count"), "I did not understand the question"},
		{"what do the longest Go files do?", only("fs_count"), "All Go files in this directory, the longest first"},
		{"what do the longest Go files do?", only("fs_count", "fs_read_file"), "All Go files in this directory, the longest first"},
		{"what is in this project?", only("fs_list_directory"), "This directory holds:"},
		{"where is Speak defined?", only("fs_search"), "Speak is defined at voice/speak.go:11"},
		{"read guide.md", only("fs_read_file"), "I could not read guide.md:"},
	} {
		if got := askWith(t, tt.tools, tt.prompt); !strings.HasPrefix(got.answer, tt.want) {
			t.Errorf("%q is answered\n%s\nwant\n%s", tt.prompt, got.answer, tt.want)
		}
	}
}
