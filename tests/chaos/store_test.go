package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/torture"
	"github.com/turnlog/turnlog/jetstream"
)

// traffic counts what users send during a run.
type traffic struct {
	t       *testing.T
	taken   atomic.Int64 // sessions that nodes took
	handled atomic.Int64 // commands that nodes handled

	mu      sync.Mutex
	refused []error
}

const talkers = 4

// under runs sessions while do disturbs the servers. The run ends when do returns.
func (c *traffic) under(servers natscli.Flags, replicas int, do func(*cell.Process)) {
	c.t.Helper()
	ctx, over := context.WithCancel(c.t.Context())
	defer over()
	survives(ctx, c.t, torture.Config{
		Seed: *seed, Duration: patience, Sessions: talkers, Nodes: 2, Servers: &servers, Replicas: replicas,
		Kinds:    []torture.Kind{torture.ConnectionsSlowed},
		Workload: torture.Workload{Node: actor.Config{Metrics: c}},
		OnSend:   c.sent,
		Clients: []func(context.Context, *cell.Process){func(_ context.Context, p *cell.Process) {
			defer over()
			do(p)
		}},
	})
	c.t.Logf("sessions were taken %d times and %d sends failed", c.taken.Load(), len(c.refused))
	if len(c.refused) == 0 {
		c.t.Error("no send failed, so this run proves little")
	}
}

func (c *traffic) sent(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, err)
}

// goesOn waits until commands are handled.
func (c *traffic) goesOn(when string) {
	c.t.Helper()
	before := c.handled.Load()
	eventually(c.t, "commands are handled "+when, func(context.Context) bool { return c.handled.Load() > before+talkers })
}

// fails sends commands until one fails or takes too long. It calls spoil before each.
func (c *traffic) fails(p *cell.Process, tooLong time.Duration, spoil func()) {
	c.t.Helper()
	tries := 0
	eventually(c.t, "a send fails", func(ctx context.Context) bool {
		spoil()
		tries++
		ctx, cancel := context.WithTimeout(ctx, tooLong)
		defer cancel()
		_, err := p.Cell.Inbox().Send(ctx, commands.Envelope{
			ID: fmt.Sprint("fails-", tries), Session: "fails", Command: commands.SubmitInput{Items: []content.Item{content.UserText("not now")}},
		})
		c.sent(err)
		return err != nil
	})
}

// SessionTaken and the other methods implement actor.Metrics.
func (c *traffic) SessionTaken()                                 { c.taken.Add(1) }
func (*traffic) SessionLeft(string)                              {}
func (c *traffic) CommandHandled(string, string)                 { c.handled.Add(1) }
func (*traffic) EntryAppended(events.Entry, bool, time.Duration) {}
func (*traffic) EffectStarted(string)                            {}

// TestAFullStoreLosesNothing fills the store to its limit under load and makes room again
// a while later.
func TestAFullStoreLosesNothing(t *testing.T) {
	t.Parallel()
	srv, err := embedded.Start(t.Context(), embedded.WithStore(t.TempDir()),
		embedded.WithSettings("jetstream { max_file_store: 16MB }"), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	c := &traffic{t: t}
	c.under(natscli.Flags{Server: srv.ClientURL()}, 1, func(p *cell.Process) {
		nc := p.Conn
		eventually(t, "a stream to fill the store with", func(ctx context.Context) bool {
			return ask(ctx, nc, "STREAM.CREATE.FILL", []byte(`{"name":"FILL","subjects":["fill"]}`), &struct{}{})
		})
		c.fails(p, patience, func() { fill(t, nc) })
		taken := c.taken.Load()
		<-time.After(4 * time.Second)
		fill(t, nc) // the room that purges made
		taken = c.taken.Load() - taken
		eventually(t, "room is made", func(ctx context.Context) bool { return ask(ctx, nc, "STREAM.PURGE.FILL", nil, &struct{}{}) })
		c.goesOn("again")
		if taken > 4*talkers {
			t.Errorf("while the store was full, sessions were taken %d times in 4 s", taken)
		}
	})
	for _, err := range c.refused {
		if !errors.Is(err, jetstream.ErrFull) {
			t.Errorf("a send failed with %v", err)
		}
	}
}

// fill publishes until nothing more fits.
func fill(t *testing.T, nc *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, size := range []int{256 << 10, 8 << 10, 200} {
		for body := make([]byte, size); ; {
			msg, err := nc.RequestWithContext(ctx, "fill", body)
			if err != nil || strings.Contains(string(msg.Data), `"error"`) {
				break
			}
		}
	}
}

// TestADeploymentSurvivesAnOutageOfJetStream kills all servers at once under load and starts them again, one of
// them without JetStream for a while.
func TestADeploymentSurvivesAnOutageOfJetStream(t *testing.T) {
	t.Parallel()
	servers := startServers(t)
	await(t, urlsOf(servers))
	c := &traffic{t: t}
	c.under(natscli.Flags{Server: urlsOf(servers)}, 3, func(p *cell.Process) {
		for _, s := range servers {
			s.kill()
		}
		c.fails(p, time.Second, func() {})
		<-time.After(2 * time.Second)
		third := servers[2]
		with := third.args
		third.args = slices.DeleteFunc(slices.Clone(with), func(a string) bool { return a == "-js" })
		for _, s := range servers {
			s.start()
		}
		c.goesOn("by servers that are back, one of them without JetStream")
		third.args = with
		third.kill()
		third.start()
		c.goesOn("by all servers")
	})
}
