package worker_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/output"
	"github.com/turnlog/turnlog/turnlogtest"
)

// storeEnv makes this program a server with its store in the named folder.
const storeEnv = "TURNLOG_TEST_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(storeEnv); dir != "" {
		os.Exit(beServer(dir))
	}
	turnlogtest.Main(m)
}

// beServer prints its URL and ends with its input.
func beServer(dir string) int {
	srv, err := embedded.Start(context.Background(), embedded.WithStore(dir), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer srv.Close()
	_, _ = fmt.Println(srv.ClientURL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// otherProcess is a cell on a server in another process, whose memory does not count.
func otherProcess(b *testing.B) *jetstream.Cell {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), storeEnv+"="+b.TempDir())
	in, err := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err != nil || outErr != nil {
		b.Fatal(err, outErr)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	nc, err := nats.Connect(strings.TrimSpace(url))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		b.Fatal(err)
	}
	if err := admin.Of(cell).Provision(b.Context(), admin.Config{}); err != nil {
		b.Fatal(err)
	}
	return cell
}

// numbers yields a given number of bytes, a different sequence for each seed.
type numbers struct {
	seed uint64
	at   int
}

func (n *numbers) Read(p []byte) (int, error) {
	if n.at == much {
		return 0, io.EOF
	}
	p = p[:min(len(p), much-n.at)]
	for i := 0; i+8 <= len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], n.seed+uint64(n.at+i)*0x9e3779b97f4a7c15)
	}
	n.at += len(p)
	return len(p), nil
}

func (n *numbers) Seek(int64, int) (int64, error) {
	n.at = 0
	return 0, nil
}

// peak returns the largest heap in use while f ran.
func peak(f func()) (most uint64) {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	f()
	close(done)
	watch.Wait()
	return most
}

// BenchmarkLargeResult compares a tool's output of 100 MB, from the tool to its result, with
// storing the same amount directly.
func BenchmarkLargeResult(b *testing.B) {
	store := otherProcess(b).Blobs()
	many, err := tool.CallFunc("many", "Puts out much.", func(ctx context.Context, c tool.Call, in struct{ Seed uint64 }) (tool.Output, error) {
		out := c.Spool(1 << 20)
		defer out.Close()
		_, err := io.Copy(out, &numbers{seed: in.Seed})
		return tool.Output{Parts: []content.Part{out.Part(ctx)}}, err
	})
	if err != nil {
		b.Fatal(err)
	}
	kept := tool.Wrap(many, output.Keep(store, output.Options{}))
	var plain, result time.Duration
	var most uint64
	seed := uint64(0)
	for b.Loop() {
		seed++
		start := time.Now()
		if _, _, err := store.PutFrom(b.Context(), &numbers{seed: seed << 32}); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(start)
		start = time.Now()
		most = max(most, peak(func() {
			r := tool.Invoke(b.Context(), kept, tool.Call{Session: "s", ID: "c", Name: "many", Input: fmt.Appendf(nil, `{"Seed":%d}`, seed)})
			if !strings.Contains(r.Result.Text(), "is kept") {
				b.Fatalf("%.300q", r.Result.Text())
			}
		}))
		result += time.Since(start)
	}
	b.ReportMetric(float64(seed)*much/1e6/result.Seconds(), "MB/s")
	b.ReportMetric(float64(most)/1e6, "peak-MB")
	b.ReportMetric(float64(result)/float64(plain), "times-plain")
	b.ReportMetric(0, "ns/op")
}
