// Command executable-tool makes a tool of an unmodified program, wc, by a manifest. The same
// file works with --tool-manifest.
package main

import (
	"context"
	_ "embed"
	"log"
	"os"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
)

//go:embed words.yaml
var manifest []byte

const script = `
replies:
  - calls: [{name: count_words, input: {file: notes.txt}}]
  - text: "wc says: {{(index .Results 0).Text}}"
`

func main() {
	tools, err := programs()
	if err == nil {
		err = run(context.Background(), tools, log.New(os.Stdout, "", 0))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// programs are the tools. They run in the current directory.
func programs() (tool.Source, error) {
	count, err := exec.New(".", "words.yaml", manifest, exec.Options{})
	if err != nil {
		return nil, err
	}
	return tool.NewRegistry("programs", count)
}

func run(ctx context.Context, tools tool.Source, out *log.Logger) error {
	m, err := scripted.Parse("count", []byte(script))
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{Model: m, Tools: []tool.Source{tools}})
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		return err
	}
	r, err := d.RunText(ctx, "How many words are in notes.txt?")
	if err != nil {
		return err
	}
	out.Print(r.Response)
	return nil
}
