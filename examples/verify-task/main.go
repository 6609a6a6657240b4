// Command verify-task works on a task until its verifier passes: the first attempt is wrong,
// the model sees the verifier's output, and the second attempt is right.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

const script = `
replies:
  - calls: [{name: fs_write_file, input: {path: greeting.txt, content: helo}}]
  - text: Written.
  - calls: [{name: fs_write_file, input: {path: greeting.txt, content: hello}}]
  - text: Corrected the spelling.
`

func main() {
	if err := run(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out *log.Logger) error {
	root, err := os.MkdirTemp("", "verify-task")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(root) //nolint:errcheck // a temporary folder
	files, err := fs.New(root, fs.Options{Write: true})
	if err != nil {
		return err
	}
	tools, err := tool.NewRegistry("files", files...)
	if err != nil {
		return err
	}
	m, err := scripted.Parse("writer", []byte(script))
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{Model: m, Tools: []tool.Source{tools}, Root: root, Policy: permission.AllowAll()})
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		return err
	}
	res, err := d.RunTask(ctx, session.Task{Goal: "Write hello into greeting.txt.", Verifier: spelling{out}, MaxRetries: 2})
	if err != nil {
		return err
	}
	out.Printf("%s after %d verifications: %s\n", res.Status, res.Attempts, res.Summary)
	out.Println("verified:", res.Verified, "files:", strings.Join(res.FilesChanged, ", "))
	return nil
}

// spelling is a verifier in Go. One that runs a command, on any worker, is
// extension.Command("make", "test").
type spelling struct{ out *log.Logger }

// Verify checks the work.
func (s spelling) Verify(_ context.Context, workdir string) (pass bool, output string, err error) {
	text, err := os.ReadFile(filepath.Join(workdir, "greeting.txt"))
	if errors.Is(err, os.ErrNotExist) {
		return false, "there is no greeting.txt", nil
	}
	s.out.Printf("gate: greeting.txt says %q\n", text)
	return string(text) == "hello", fmt.Sprintf("%q is not spelled like that", text), err
}
