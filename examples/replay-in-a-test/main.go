// Command replay-in-a-test records a session and replays its journal. Its test replays a recorded
// journal and checks every invariant.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
)

const script = `
replies:
  - {text: I add them up., calls: [{name: add, input: {a: 2, b: 3}}]}
  - {text: "It is {{(index .Results 0).Text}}."}
`

func main() {
	if err := run(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out *log.Logger) error {
	var exported bytes.Buffer
	if err := record(ctx, &exported); err != nil {
		return err
	}
	if len(os.Args) > 1 { // to keep it as a test
		if err := os.WriteFile(os.Args[1], exported.Bytes(), 0o600); err != nil {
			return fmt.Errorf("keep the journal: %w", err)
		}
	}
	s, err := replay("sum", &exported)
	if err != nil {
		return err
	}
	for _, it := range s.Transcript {
		out.Println(it.Kind, it.Text())
		for _, r := range it.Results() {
			out.Println("  ", r.Name, "gave", r.Text())
		}
	}
	return nil
}

// record runs a session and exports its journal. `observer export` does that for a session of a
// deployment.
func record(ctx context.Context, out io.Writer) error {
	type pair struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	add, err := tool.Func("add", "Adds two numbers.", func(_ context.Context, p pair) (int, error) { return p.A + p.B, nil }, tool.ReadOnly())
	if err != nil {
		return err
	}
	tools, err := tool.NewRegistry("numbers", add)
	if err != nil {
		return err
	}
	m, err := scripted.Parse("sum", []byte(script))
	if err != nil {
		return err
	}
	j := journal.NewMemory()
	a, err := agent.New(agent.Config{Model: m, Tools: []tool.Source{tools}, Journal: j})
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{ID: "sum"})
	if err != nil {
		return err
	}
	if _, err := d.RunText(ctx, "What is 2 + 3?"); err != nil {
		return err
	}
	return audit.Export(out, j.Read(ctx, "sum", 0))
}

// replay verifies an exported journal and folds it into its driver's state. It calls no model
// and no tool: replay never decides.
func replay(id content.SessionID, exported *bytes.Buffer) (*loop.State, error) {
	again := bytes.NewReader(exported.Bytes())
	report, err := audit.Verify(audit.Import(exported))
	if err != nil {
		return nil, err
	}
	if v, broken := report.First(); broken {
		return nil, fmt.Errorf("the journal of %s is broken: %v", id, v)
	}
	return audit.Replay(id, audit.Import(again))
}
