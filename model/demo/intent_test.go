package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnderstand(t *testing.T) {
	t.Parallel()
	tests := map[string]intent{
		"Which Go files here are the longest, and what do they do?": {verb: ranking, kind: kind{name: "Go"}, limit: 10, explain: true},
		"what are the 3 largest files in internal/fs":               {verb: ranking, limit: 3, bytes: true, dir: "internal/fs"},
		"show me the five shortest markdown files":                  {verb: ranking, limit: 5, smallest: true, kind: kind{name: "Markdown"}},
		"Which *.py are the longest?":                               {verb: ranking, limit: 10, kind: kind{name: "Python"}},
		"the longest .rs file in the src folder":                    {verb: ranking, limit: 10, kind: kind{name: "Rust"}, dir: "src"},
		"which Go files in actor are the longest?":                  {verb: ranking, limit: 10, kind: kind{name: "Go"}, dir: "actor"},
		"largest Go files by lines":                                 {verb: ranking, limit: 10, kind: kind{name: "Go"}},

		"how many Go files are there?":        {verb: counting, kind: kind{name: "Go"}},
		"Count the lines of Python in src/":   {verb: counting, kind: kind{name: "Python"}, dir: "src"},
		"How many lines does main.go have?":   {verb: counting, dir: "main.go", file: "main.go", kind: kind{}},
		"how many files are in docs?":         {verb: counting, dir: "docs"},
		"How many Go tests are there in loop": {verb: counting, kind: kind{name: "Go test"}, dir: "loop"},
		"number of lines of TypeScript":       {verb: counting, kind: kind{name: "TypeScript"}},
		"how big is this project?":            {verb: counting},

		"tree model":                     {verb: listing, dir: "model", tree: true},
		"read internal":                  {verb: listing, dir: "internal"},
		"list the files in cmd":          {verb: listing, dir: "cmd"},
		"ls":                             {verb: listing},
		"tree internal/":                 {verb: listing, tree: true, dir: "internal"},
		"What's in the tools directory?": {verb: listing, dir: "tools"},
		"what files are here":            {verb: listing},
		"show me what is in ../other":    {verb: listing, dir: "../other"},

		"List all Go files":               {verb: finding, kind: kind{name: "Go"}},
		"Where is main.go?":               {verb: finding, file: "main.go"},
		"are there yaml files in deploy?": {verb: finding, kind: kind{name: "YAML"}, dir: "deploy"},
		"find the Makefile":               {verb: finding, file: "Makefile"},

		"read go.mod":                           {verb: reading, file: "go.mod"},
		"Show me lines 10-20 of loop/decide.go": {verb: reading, file: "loop/decide.go", from: 10, to: 20},
		"print the first 5 lines of the README": {verb: reading, file: "README.md", from: 1, to: 5},
		"What does ./cmd/turnlog/main.go do?":   {verb: reading, file: "cmd/turnlog/main.go", explain: true},
		"cat .gitignore":                        {verb: reading, file: ".gitignore"},
		"line 7 of a.txt, please":               {verb: reading, file: "a.txt", from: 7, to: 7},

		"search for ErrConflict":            {verb: searching, phrase: "ErrConflict"},
		`find "not found" in loop`:          {verb: searching, phrase: "not found", dir: "loop"},
		"grep TODO in internal/":            {verb: searching, phrase: "TODO", dir: "internal"},
		"Which files mention jetstream?":    {verb: searching, phrase: "jetstream"},
		"which Go files contain `panic(`?":  {verb: searching, phrase: "panic(", kind: kind{name: "Go"}},
		"where is zap mentioned?":           {verb: searching, phrase: "zap"},
		"How many times does Append occur?": {verb: searching, phrase: "Append"},
		"find all occurrences of run token": {verb: searching, phrase: "run token"},
		"any TODOs left?":                   {verb: searching, phrase: "TODO"},
		"search the code for retry":         {verb: searching, phrase: "retry"},

		"Where is Decide defined?":              {verb: locating, phrase: "Decide"},
		"where is the type loop.State declared": {verb: locating, phrase: "loop.State"},
		"find the definition of ParsePlace":     {verb: locating, phrase: "ParsePlace"},
		"Where is IsToken used in content?":     {verb: locating, phrase: "IsToken", uses: true, dir: "content"},
		"who calls newDriver()?":                {verb: locating, phrase: "newDriver", uses: true},
		"where's `fold` defined?":               {verb: locating, phrase: "fold"},
		"which files use Registry?":             {verb: locating, phrase: "Registry", uses: true},

		"What is in this project?": {verb: overview},
		"Explain this repo to me":  {verb: overview},
		"what is this?":            {verb: overview},
		"Give me an overview":      {verb: overview},

		"help":                {verb: helping},
		"What can you do?":    {verb: helping},
		"":                    {verb: helping},
		"write me a poem":     {verb: unclear},
		"hello":               {verb: unclear},
		"Hello, how are you?": {verb: unclear},
		"why is the sky blue": {verb: unclear},
		"fix the bug":         {verb: unclear},
	}
	for prompt, want := range tests {
		if want.dir == "" {
			want.dir = "."
		}
		got := understand(prompt)
		got.kind = kind{name: got.kind.name}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(intent{}, kind{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", prompt, diff)
		}
	}
}
