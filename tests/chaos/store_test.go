package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// crowd is clients that keep sending input to sessions.
type crowd struct {
	world *celltest.World
	talks sync.WaitGroup
	stop  context.CancelFunc

	patience time.Duration

	mu       sync.Mutex // guards what follows
	accepted map[content.SessionID][]string
	refused  map[string]int // by the error
}

const talkers = 4

// talk starts two nodes and clients that send input until the crowd rests. A client
// waits for an acknowledgment no longer than its patience.
func talk(w *celltest.World, taken *atomic.Int64, patience time.Duration) *crowd {
	for i := range 2 {
		w.Node(actor.Config{Name: fmt.Sprint("n", i+1), Idle: 300 * time.Millisecond, Sweep: 2 * time.Second, Metrics: counts{taken}})
	}
	ctx, stop := context.WithCancel(w.Ctx)
	c := &crowd{world: w, stop: stop, patience: patience, accepted: make(map[content.SessionID][]string), refused: make(map[string]int)}
	for i := range talkers {
		s := content.SessionID(fmt.Sprint("s", i+1))
		w.Start(s, "replies: [{text: ok, repeat: true}]")
		cell := w.Open(w.Connect())
		c.talks.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				c.say(w.Ctx, cell, s, fmt.Sprint("m", n))
				<-time.After(100 * time.Millisecond)
			}
		})
	}
	return c
}

func (c *crowd) say(ctx context.Context, cell *jetstream.Cell, s content.SessionID, id string) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	_, err := cell.Inbox().Send(ctx, commands.Envelope{
		ID: id, Session: s, Command: commands.SubmitInput{Items: []content.Item{content.UserText(id)}, OnBusy: events.Queue},
	})
	if err == nil {
		cell.Runs().WakeSoon(s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.refused[err.Error()]++
		return
	}
	c.accepted[s] = append(c.accepted[s], id)
}

// count returns how many commands were acknowledged so far.
func (c *crowd) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ids := range c.accepted {
		n += len(ids)
	}
	return n
}

// rest stops the clients and waits until every session has parked with every acknowledged
// command in its journal.
func (c *crowd) rest(t *testing.T) {
	t.Helper()
	c.stop()
	c.talks.Wait()
	for s, ids := range c.accepted {
		var report audit.Report
		eventually(t, fmt.Sprintf("rest of %s", s), func(ctx context.Context) bool {
			checker := audit.NewChecker()
			checker.Accepted(ids...)
			parked := false
			for rec, err := range c.world.Cell.Journal().Read(ctx, s, 0) {
				if err != nil {
					return false
				}
				checker.Add(rec)
				parked = slices.Contains(rec.Entry.Kinds(), events.KindParked)
			}
			report = checker.Report()
			return parked && len(report.Violations) == 0
		})
		t.Logf("%s: %d commands, %d entries", s, len(ids), report.Entries)
	}
}

// counts counts the sessions that nodes take.
type counts struct{ taken *atomic.Int64 }

func (c counts) SessionTaken()                  { c.taken.Add(1) }
func (counts) SessionLeft(string)               {}
func (counts) CommandHandled(string, string)    {}
func (counts) EntryAppended(int, time.Duration) {}
func (counts) EffectStarted(string)             {}

// TestAFullStoreLosesNothing fills the store to its limit under load and makes room again
// a while later.
func TestAFullStoreLosesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	srv, err := embedded.Start(ctx, embedded.WithStore(t.TempDir()), embedded.WithSettings("jetstream { max_file_store: 16MB }"), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	w := celltest.On(ctx, t, srv, admin.Config{Queues: []admin.QueueConfig{{Name: celltest.Queue, AckWait: 3 * time.Second}}})
	nc := w.Connect()
	eventually(t, "a stream to fill the store with", func(ctx context.Context) bool {
		return ask(ctx, nc, "STREAM.CREATE.FILL", []byte(`{"name":"FILL","subjects":["fill"]}`), &struct{}{})
	})
	var taken atomic.Int64
	c := talk(w, &taken, patience)
	<-time.After(time.Second)
	fill(ctx, t, nc)
	full := taken.Load()
	<-time.After(4 * time.Second)
	fill(ctx, t, nc) // the room that purges made
	full = taken.Load() - full
	before := c.count()
	eventually(t, "room is made", func(ctx context.Context) bool { return ask(ctx, nc, "STREAM.PURGE.FILL", nil, &struct{}{}) })
	eventually(t, "commands are accepted again", func(context.Context) bool { return c.count() > before+4*talkers })
	c.rest(t)
	t.Logf("while it was full, sessions were taken %d times and %d sends failed", full, len(c.refused))
	if full > 4*talkers {
		t.Errorf("while the store was full, sessions were taken %d times in 4 s", full)
	}
	if len(c.refused) == 0 {
		t.Error("no send failed, so this run proves little")
	}
	for message := range c.refused {
		if !strings.Contains(message, jetstream.ErrFull.Error()) {
			t.Errorf("a send failed with %q", message)
		}
	}
}

// fill publishes until nothing more fits.
func fill(ctx context.Context, t *testing.T, nc *nats.Conn) {
	t.Helper()
	for _, size := range []int{256 << 10, 8 << 10, 200} {
		for body := make([]byte, size); ; {
			if !stores(ctx, nc, body) {
				break
			}
		}
	}
}

func stores(ctx context.Context, nc *nats.Conn, body []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, "fill", body)
	return err == nil && !strings.Contains(string(msg.Data), `"error"`)
}

// processes are servers outside this process.
type processes string

// Connect connects to them and reconnects for as long as they are away.
func (p processes) Connect(opts ...nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}, opts...)
	return nats.Connect(string(p), opts...)
}

// TestJetStreamGoneForAWhile kills all servers at once under load and starts them again,
// then runs one of them without JetStream for a while.
func TestJetStreamGoneForAWhile(t *testing.T) {
	t.Parallel()
	servers := startServers(t)
	await(t, urlsOf(servers))
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	w := celltest.On(ctx, t, processes(urlsOf(servers)), admin.Config{
		Replicas: 3, Queues: []admin.QueueConfig{{Name: celltest.Queue, AckWait: 3 * time.Second}},
	})
	var taken atomic.Int64
	c := talk(w, &taken, 3*time.Second)
	goesOn := func(when string) {
		before := c.count()
		eventually(t, "commands are accepted "+when, func(context.Context) bool { return c.count() > before+4*talkers })
	}
	goesOn("at first")
	for _, s := range servers {
		s.kill()
	}
	<-time.After(3 * time.Second)
	for _, s := range servers {
		s.start()
	}
	goesOn("by servers that are back")
	third := servers[2]
	with := third.args
	third.args = slices.DeleteFunc(slices.Clone(with), func(a string) bool { return a == "-js" })
	third.kill()
	third.start()
	goesOn("next to a server without JetStream")
	third.args = with
	third.kill()
	third.start()
	goesOn("at last")
	c.rest(t)
	t.Logf("sessions were taken %d times and %d sends failed", taken.Load(), len(c.refused))
	if len(c.refused) == 0 {
		t.Error("no send failed, so this run proves little")
	}
}
