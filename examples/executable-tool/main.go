// Command executable-tool makes a tool of an unmodified program, wc, by a manifest. The same
// file works with --tool-manifest.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

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
	root, err := folder()
	var tools tool.Source
	if err == nil {
		tools, err = programs(root)
	}
	if err == nil {
		err = run(context.Background(), tools, log.New(os.Stdout, "", 0))
	}
	_ = os.RemoveAll(root) // a temporary folder
	if err != nil {
		log.Fatal(err)
	}
}

// folder makes a folder with a file.
func folder() (root string, err error) {
	if root, err = os.MkdirTemp("", "executable-tool"); err == nil {
		err = os.WriteFile(filepath.Join(root, "notes.txt"), []byte("Buy milk.\n"), 0o600)
	}
	if err != nil {
		return root, fmt.Errorf("make a folder: %w", err)
	}
	return root, nil
}

// programs are the tools. They run in the folder root.
func programs(root string) (tool.Source, error) {
	count, err := exec.New(root, "words.yaml", manifest, exec.Options{})
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
	if strings.Contains(r.Response, "Tool failed") { // the model would have read it and gone on
		return errors.New("the call failed")
	}
	return nil
}
