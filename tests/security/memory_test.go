package security

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	processes "github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// Environment variables that make this binary a process with little memory.
const (
	smallRole   = "TURNLOG_TEST_ROLE"
	smallServer = "TURNLOG_TEST_SERVER"
)

// smallMemory is what the process may use. A watchdog ends it when it holds more.
const smallMemory = 256 << 20

// runSmall is the main function of such a process.
func runSmall(role string) error {
	debug.SetMemoryLimit(smallMemory / 2)
	go func() {
		for range time.Tick(2 * time.Millisecond) {
			heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
			if metrics.Read(heap); heap[0].Value.Uint64() > smallMemory {
				fmt.Printf("%s: %d bytes on the heap\n", role, heap[0].Value.Uint64())
				os.Exit(137)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	nc, err := nats.Connect(os.Getenv(smallServer))
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := jetstream.Open(nc, "")
	if err != nil {
		return err
	}
	switch role {
	case "client":
		return smallClient(ctx, nc)
	case "observer":
		return smallObserver(ctx, c)
	case "node":
		return smallNode(ctx, nc, c)
	}
	return smallWorker(ctx, nc, c)
}

// smallClient reads hostile sessions and the catalog, and has a conversation among hostile copies.
func smallClient(ctx context.Context, nc *nats.Conn) error {
	c, err := client.Open(nc, "")
	if err != nil {
		return err
	}
	for i := range payloads() {
		if err := reads(ctx, i, func(ctx context.Context) bool {
			_, _, err := c.Read(ctx, hostile(i))
			return err == nil
		}); err != nil {
			return err
		}
	}
	if _, err := c.Tools(ctx); err != nil {
		return err
	}
	s, err := c.Attach(ctx, "good")
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(ctx) }()
	for n := range 5 {
		if err := publishAll(ctx, nc, "turnlog.delta.good", "turnlog.live.journal.good", "turnlog.live.cmd.good.ask", "turnlog.cmd.good.ask"); err != nil {
			return err
		}
		turn, err := s.Submit(ctx, session.Input{Items: []content.Item{content.UserText(fmt.Sprint("hello ", n))}})
		if err != nil {
			return err
		}
		if _, err := turn.Wait(ctx); err != nil {
			return err
		}
		if got := turn.Result(); got == nil || got.Text() != "ok" {
			return fmt.Errorf("the turn ended as %+v", got)
		}
	}
	return nil
}

// smallObserver reads and follows all journals.
func smallObserver(ctx context.Context, c *jetstream.Cell) error {
	for i := range payloads() {
		if err := reads(ctx, i, func(ctx context.Context) bool {
			bad := false
			for rec, err := range c.Journal().Read(ctx, hostile(i), 0) {
				bad = bad || err != nil || rec.Err != nil
			}
			return !bad
		}); err != nil {
			return err
		}
	}
	report, err := audit.Verify(c.Journal().Read(ctx, "good", 0))
	if err == nil && (report.Entries == 0 || len(report.Faults) > 0) {
		err = fmt.Errorf("the good session: %+v", report)
	}
	return err
}

// reads reads a hostile session, which must fail soon. It prints its name, in case the process ends meanwhile.
func reads(ctx context.Context, i int, well func(context.Context) bool) error {
	fmt.Println("reads", hostile(i))
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if well(ctx) {
		return fmt.Errorf("%s reads well", hostile(i))
	}
	return ctx.Err()
}

// smallNode drives the good sessions among hostile commands, until its standard input ends.
func smallNode(ctx context.Context, nc *nats.Conn, c *jetstream.Cell) error {
	n, err := processes.NewProcess("small", nc, c, nil).Node(actor.Config{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := n.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// smallWorker runs the one good call among hostile tasks.
func smallWorker(ctx context.Context, nc *nats.Conn, c *jetstream.Cell) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	echo, err := tool.Func("echo", "Echoes.", func(context.Context, struct{ Text string }) (string, error) {
		time.AfterFunc(time.Second, cancel) // its report is sent by then
		return "echoed", nil
	}, tool.ReadOnly())
	if err != nil {
		return err
	}
	w, err := processes.NewProcess("small", nc, c, nil).Worker(ctx, turnlogtest.Queue, worker.Config{}, echo)
	if err != nil {
		return err
	}
	if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// payloads returns hostile payloads. They decode to far more bytes than they have, or claim to.
func payloads() [][]byte {
	array := func(n uint32, of ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0xdd}, n), bytes.Repeat(of, int(n)/8)...)
	}
	full := binary.BigEndian.AppendUint32([]byte{0xdd}, 900_000)
	return [][]byte{
		bytes.Repeat([]byte{0x91}, 64<<10),
		array(0xffffffff >> 12),
		array(1<<20, 0x80),
		append(full, bytes.Repeat([]byte{0x80}, 900_000)...),
		{0x92, 0xa1, 'x', 0xc6, 0xff, 0xff, 0xff, 0xff},
		append([]byte{0x81, 0xa1, 'e', 0xdd}, append(binary.BigEndian.AppendUint32(nil, 500_000), bytes.Repeat([]byte{0x92, 0xa0, 0x80}, 300_000)...)...),
		[]byte(strings.Repeat(`{"a":[`, 40_000)),
		nil, // the message names a blob that says it has 2.6 GB
	}
}

func hostile(i int) content.SessionID { return content.SessionID(fmt.Sprint("hostile", i)) }

// zeros names the blob.
var zeros = strings.Repeat("ab", 32)

func publishAll(ctx context.Context, nc *nats.Conn, subjects ...string) error {
	for _, subject := range subjects {
		for _, p := range payloads() {
			if err := nc.Publish(subject, p); err != nil {
				return err
			}
		}
	}
	return nc.FlushWithContext(ctx)
}

// A client, an observer, a worker and a node with little memory meet hostile entries, snapshots, live
// copies, pieces of replies, offers, tasks and commands, and continue to work.
func TestHostileBytesDoNotTakeTheMemoryOfRoles(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	srv, err := embedded.Start(ctx, embedded.WithListener("127.0.0.1:0"), embedded.WithStore(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	w := turnlogtest.On(ctx, t, srv, admin.Config{Queues: []admin.QueueConfig{{Name: turnlogtest.Queue}}})
	store := func(subject string, data []byte, blob bool) {
		t.Helper()
		msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
		if blob {
			msg.Header.Set("Turnlog-Blob", zeros)
		}
		if _, err := w.Conn.RequestMsgWithContext(ctx, msg); err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	store("$O.TURNLOG_BLOBS.M."+base64.URLEncoding.EncodeToString([]byte(zeros)), fmt.Appendf(nil,
		`{"name":%q,"bucket":"TURNLOG_BLOBS","nuid":"zeros","size":2600000000,"chunks":20000}`, zeros), false)
	for i, p := range payloads() {
		id := string(hostile(i))
		store("turnlog.journal."+id, p, p == nil)
		store("$KV.TURNLOG_SNAPSHOTS."+id, p, p == nil)
		store("$KV.TURNLOG_CATALOG.offer."+id, p, p == nil)
		store("turnlog.task."+turnlogtest.Queue+"."+id+".t1-r1-c1", p, p == nil)
		for _, lane := range []string{"ask", "decide", "report"} {
			store("turnlog.cmd."+id+"."+lane, p, p == nil)     // its journal is hostile, too
			store("turnlog.cmd.new-"+id+"."+lane, p, p == nil) // does not exist
			store("turnlog.cmd.calls."+lane, p, p == nil)
		}
		store("turnlog.run."+id, nil, false)
		store("turnlog.run.new-"+id, nil, false)
	}
	w.Offer("small", must(tool.Func("echo", "Echoes.", func(context.Context, struct{ Text string }) (string, error) { return "", nil }, tool.ReadOnly())))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	small := func(role string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), smallRole+"="+role, smallServer+"="+srv.ClientURL())
		return cmd
	}
	node := small("node")
	var said bytes.Buffer
	node.Stdout, node.Stderr = &said, &said
	stop, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	died := make(chan error, 1)
	go func() {
		err := node.Wait()
		if err != nil {
			cancel() // nothing else would end the waits below
		}
		died <- err
	}()
	ended := sync.OnceFunc(func() {
		_ = stop.Close()
		if err := <-died; err != nil {
			t.Errorf("node: %v\n%s", err, &said)
		}
	})
	t.Cleanup(ended)
	w.Start("good", "replies:\n  - text: ok\n    repeat: true\n")
	calls := w.Start("calls", "replies:\n  - calls: [{name: echo, input: {Text: hi}}]\n  - text: \"{{(index .Results 0).Text}}\"\n")
	if err := calls.Send(ctx, events.Steer, content.UserText("go")); err != nil {
		t.Fatal(err)
	}
	w.Until("calls", events.KindToolDispatched)
	for _, role := range []string{"client", "observer", "worker"} {
		if out, err := small(role).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", role, err, out)
		}
	}
	w.Until("calls", events.KindTurnFinished)
	ended()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
