package integration

import (
	"context"
	"fmt"
	"os"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
)

// Environment variables that make this binary a node which some sessions end.
const (
	fragileNode   = "TURNLOG_TEST_NODE"
	fragileServer = "TURNLOG_TEST_SERVER"
)

// fragile ends its process when a session starts that is named for how: by taking all memory, or at once.
type fragile struct{}

func (fragile) Name() string              { return "fragile" }
func (fragile) Points() []extension.Point { return []extension.Point{extension.SessionStart} }

func (fragile) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	switch {
	case strings.HasPrefix(string(e.Session), "exit"):
		os.Exit(1)
	case strings.HasPrefix(string(e.Session), "memory"):
		for hold := [][]byte{}; ; {
			hold = append(hold, []byte(strings.Repeat("x", 1<<20)))
			if heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}; len(hold)%16 == 0 {
				if metrics.Read(heap); heap[0].Value.Uint64() > 1<<26 {
					os.Exit(137) // as the kernel does with a process in a container
				}
			}
		}
	}
	return extension.Action{}, nil
}

// runFragileNode is the main function of such a node.
func runFragileNode(name string) error {
	nc, err := nats.Connect(os.Getenv(fragileServer))
	if err != nil {
		return err
	}
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		return err
	}
	n, err := actor.NewNode(cell, actor.Config{
		Name: name, Effects: engine.Config{Hooks: []extension.Hook{fragile{}}},
		Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) },
	})
	if err != nil {
		return err
	}
	return n.Run(context.Background())
}

// Two sessions end every node that handles their first command. Each is tried a few times, then set
// aside; the other sessions of the nodes continue.
func TestSessionsThatEndTheirNodesAreSetAside(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*process
	for i := range 8 {
		d.env = []string{fragileNode + "=" + fmt.Sprint("n", i), fragileServer + "=nats://" + d.addr}
		nodes = append(nodes, d.start(self))
	}
	const script = "replies:\n  - text: ok\n    delay: 3s\n"
	for i := range 20 {
		d.open(ctx, content.SessionID(fmt.Sprint("s", i)), script)
	}
	for n, id := range []content.SessionID{"memory", "exit"} {
		_, err := d.cell.Inbox().Send(ctx, commands.Envelope{ID: "open", Session: id, Command: commands.OpenSession{
			Config: events.Config{Model: "scripted:test", ModelData: []byte(script)},
		}})
		if err == nil {
			err = d.cell.Runs().Wake(ctx, id)
		}
		if err != nil {
			t.Fatal(err)
		}
		d.eventually("the session is set aside", func(ctx context.Context) bool {
			all, err := trials.Of(d.cell).Aside(ctx)
			return err == nil && len(all) == n+1 && all[n].Session == id
		})
	}
	for i := range 20 {
		d.until(ctx, content.SessionID(fmt.Sprint("s", i)), ends)
	}
	ended := 0
	for _, p := range nodes {
		select {
		case <-p.done:
			ended++
		default:
		}
	}
	if ended < 4 || ended > 8 { // two or three for each; four where takeovers wait for a stream
		t.Errorf("%d nodes ended", ended)
	}
	out, errs, code := d.run("turnlog", "doctor", "--server", "nats://"+d.addr)
	for _, says := range []string{"no node drives session memory", "no node drives session exit", "turnlog dead retry exit"} {
		if code != cli.CodeFailed || !strings.Contains(out, says) {
			t.Errorf("the doctor exits with %d and does not say %q:\n%s%s", code, says, out, errs)
		}
	}
}
