// Command agent-file runs an agent from a file, in this process: a task with a verifier, a
// file that no call may read, a hook that refuses a call, and another agent that it delegates
// to. The same two files run as
// "turnlog task --agent FILE", and by name in a deployment.
package main

import (
	"context"
	"embed"
	"fmt"
	"log"
	"os"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

//go:embed agents
var files embed.FS

// scripts replace models. A program with real models uses registry.New(os.Getenv).Open.
func scripts(name string, _ []byte) (model.Model, error) {
	return scripted.Parse(name, []byte(map[string]string{
		"scripted:editor": `
replies:
  - calls:
      - {name: fs_read_file, input: {path: diary.txt}}
      - {name: fs_write_file, input: {path: notes.txt, content: "TODO\n"}}
  - calls: [{name: fs_write_file, input: {path: notes.txt, content: "Buy milk.\n"}}]
  - calls: [{name: agent_reviewer, input: {prompt: "Review notes.txt."}}]
  - text: "Written. The reviewer says: {{(index .Results 3).Text}}"
  - calls: [{name: fs_write_file, input: {path: notes.txt, content: "Buy milk and bread.\n"}}]
  - text: Now there is bread, too.
`,
		"scripted:reviewer": `
replies:
  - calls: [{name: fs_read_file, input: {path: notes.txt}}]
  - text: There is no bread.
`,
	}[name]))
}

// find finds an agent in the embedded folder.
func find(_ context.Context, name, _ string) (*agentfile.Definition, error) {
	file := "agents/" + name + ".yaml"
	text, err := files.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", name, agentfile.ErrUnknown)
	}
	return agentfile.Parse(file, text, func(beside string) ([]byte, error) { return files.ReadFile("agents/" + beside) })
}

func main() {
	if err := run(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out *log.Logger) error {
	root, err := os.MkdirTemp("", "agent-file")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(root) //nolint:errcheck // a temporary folder
	all, err := fs.New(root, fs.Options{Write: true})
	if err != nil {
		return err
	}
	tools, err := tool.NewRegistry("files", all...)
	if err != nil {
		return err
	}

	editor, err := find(ctx, "editor", "")
	if err != nil {
		return err
	}
	cfg, err := editor.Agent(ctx, agentfile.Kit{
		Models: scripts, Tools: []tool.Source{tools}, Root: root, Folder: root, Find: find,
		Policy: permission.AllowAll(), // so what the agents' files allow runs
	})
	if err != nil {
		return err
	}
	cfg.Observers = []extension.Observer{narrator{out}}
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		return err
	}
	task := editor.Task("Note what to buy.")
	res, err := d.RunTask(ctx, session.Task{Goal: task.Goal, Verifier: extension.Command(task.Verifier...), MaxRetries: task.MaxRetries})
	if err != nil {
		return err
	}
	out.Printf("%s, verified %t, after %d verifications: %s\n", res.Status, res.Verified, res.Attempts, res.Summary)
	return nil
}

// narrator prints some events of the journal.
type narrator struct{ out *log.Logger }

// HandleEvent prints an event.
func (n narrator) HandleEvent(o extension.Observed) {
	switch ev := any(o.Event).(type) {
	case events.RunStarted:
		n.out.Printf("the session is of agent %s, version %s\n", ev.Config.Agent.Name, ev.Config.Agent.Version)
	case events.ToolResultReceived:
		n.out.Printf("%s: %s%s\n", ev.Result.Name, ev.Result.Status, why(ev.Result))
	case events.ReplyRecorded:
		if text := ev.Items[len(ev.Items)-1].Text(); text != "" {
			n.out.Println("says:", text)
		}
	}
}

// why returns what the model sees of a call that did not run.
func why(r content.ToolResult) string {
	if r.Status == content.StatusOK {
		return ""
	}
	return ", " + r.Text()
}
