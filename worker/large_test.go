package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/output"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// much is the number of bytes that the tools of these tests write.
const much = 100_000_000

// zeros yields any number of zeros, in lines.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	p[0] = '0'
	for n := 1; n < len(p); n *= 2 {
		copy(p[n:], p[:n])
	}
	p[len(p)-1] = '\n'
	return len(p), nil
}

// largeWorld is a cell on disk.
func largeWorld(t *testing.T, dir string) *turnlogtest.Deployment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	srv, err := embedded.Start(ctx, embedded.WithStore(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return turnlogtest.On(ctx, t, srv, admin.Config{Queues: []admin.QueueConfig{{Name: turnlogtest.Queue, AckWait: 8 * time.Second}}})
}

// streams returns the tools of a worker: one with a large output, which may run twice, and the one
// that reads it.
func streams(t *testing.T, store output.Store) []tool.Tool {
	t.Helper()
	many, err := tool.CallFunc("many", "Puts out much.", func(ctx context.Context, c tool.Call, _ struct{}) (tool.Output, error) {
		out := c.Spool(1 << 20)
		defer out.Close()
		_, err := io.CopyN(out, zeros{}, much)
		return tool.Output{Parts: []content.Part{out.Part(ctx)}}, err
	}, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	read, err := output.NewReader(store)
	if err != nil {
		t.Fatal(err)
	}
	return []tool.Tool{tool.Wrap(many, output.Keep(store, output.Options{Limit: 2000})), read}
}

// dying is a store that kills its worker halfway through an output.
type dying struct {
	output.Store
	die func()
}

func (d dying) PutFrom(ctx context.Context, src io.ReadSeeker) (string, int64, error) {
	return d.Store.PutFrom(ctx, &halfway{ReadSeeker: src, at: much + much/2, reached: d.die})
}

// halfway calls reached after a number of bytes, over both passes.
type halfway struct {
	io.ReadSeeker
	at      int
	reached func()
}

func (h *halfway) Read(p []byte) (int, error) {
	n, err := h.ReadSeeker.Read(p)
	if h.at -= n; h.at <= 0 {
		h.reached()
	}
	return n, err
}

// A worker is lost when half of 100 MB are stored. The call runs again, another call reads near the
// end of the stored output, and the first worker's part is collected.
func TestALargeResultSurvivesItsWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := largeWorld(t, dir)
		dead, once := make(chan struct{}), sync.Once{}
		cfg := worker.Config{Slots: 1, DrainTimeout: 100 * time.Millisecond}
		first := w.Worker("first", cfg, func(nc *nats.Conn) []tool.Tool {
			return streams(t, dying{w.Open(nc).Blobs(), func() {
				once.Do(func() {
					nc.Close()
					close(dead)
				})
			}})
		})
		node := w.Node(actor.Config{Name: "n"}) // after the worker, so that the first model call shows its tools
		t.Cleanup(func() { node.Drain(t) })
		t.Cleanup(func() { tell(t, w) })
		s := w.Start("s", fmt.Sprintf(`
replies:
  - calls: [{name: many}]
  - calls: [{name: output_read, input: {id: "{{slice (index .Results 0).Text %[1]d %[2]d}}", offset: 99999990}}]
  - text: "{{(index .Results 1).Text}}"
`, idAt(), idAt()+64))
		if err := s.Send(w.Ctx, events.Steer, content.UserText("go")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-dead:
		case <-w.Ctx.Done():
			t.Fatal("the first worker never stored half of it")
		}
		first.Crash(t)
		second := w.Worker("second", cfg, func(nc *nats.Conn) []tool.Tool { return streams(t, w.Open(nc).Blobs()) })
		step, err := s.Next(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		second.Drain(t)
		fin, ok := step.(*session.Finished)
		if !ok {
			t.Fatalf("Next = %T, want *session.Finished", step)
		}
		if got, want := fin.Result.Text(), "output: bytes 99999990 to 100000000 of 100000000; the end\n"; len(got) != len(want)+10 || got[:len(want)] != want {
			t.Errorf("read %q", got)
		}
		results := turnlogtest.Facts[events.ToolResultReceived](w, "s")
		k := keptOf(t, results[0].Result)
		if results[0].Attempt != 1 || k.Bytes != much {
			t.Errorf("attempt %d kept %+v", results[0].Attempt, k)
		}
		collected, err := admin.Of(w.Cell).Collect(w.Ctx, 0, false)
		if err != nil || collected.Parts != 1 || collected.Removed != 0 {
			t.Errorf("Collect = %+v, %v, want the part of the worker that was lost", collected, err)
		}
		var got counter
		if ok, err := w.Cell.Blobs().CopyTo(w.Ctx, k.ID, &got); !ok || err != nil || got.n < much {
			t.Errorf("afterwards %d bytes are kept: %v, %v", got.n, ok, err)
		}
	})
}

// tell logs the session's journal if the test failed.
func tell(t *testing.T, w *turnlogtest.Deployment) {
	t.Helper()
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	for rec, err := range w.Cell.Journal().Read(ctx, "s", 0) {
		t.Logf("%v %.1000s %v", rec.Entry.At, fmt.Sprintf("%+v", rec.Entry.Events), err)
	}
}

// idAt is the index of the output's id in the result's text: after 2000 bytes of output and two
// notes.
func idAt() int {
	half := bytes.Repeat([]byte("0"), 1000)
	return len(fmt.Sprintf("%s\n[… %d bytes were cut here …]\n%s\n[The whole output, %d bytes, is kept: read it with output_read, id \"", half, much-2000, half, much))
}

func keptOf(t *testing.T, r content.ToolResult) (k output.Kept) {
	t.Helper()
	raw, _ := r.Metadata.Get(output.MetaKept)
	if err := json.Unmarshal(raw, &k); err != nil {
		t.Fatalf("nothing was stored of %.300q: %v", r.Text(), err)
	}
	return k
}

// counter counts what is written to it.
type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}
