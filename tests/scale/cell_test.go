package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream"
)

// conversation has two turns, one with a call.
const conversation = `
replies:
  - text: Let me look at that.
    calls: [{name: shell_exec, input: {command: "printf 'total 3, all of them paid'"}}]
  - text: There are three invoices, and all of them are paid.
  - text: You are welcome.
    repeat: true
`

// BenchmarkCell fills a deployment of real programs, whose server stores on disk, with sessions that are parked, each a copy of
// a real one of two turns. It reports what each costs, how long its server takes to restart after a crash, and how long people
// wait: for a list of the latest sessions, for a search, and for the answer of a session that is woken.
func BenchmarkCell(b *testing.B) {
	bin, err := clitest.Build(b.Context(), "./cmd/...")
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			for b.Loop() {
				measure(b, bin, n)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func measure(b *testing.B, bin string, n int) {
	b.Helper()
	site := clitest.NewCell(b, bin)
	worker := site.Start("tool-worker", "--tools", "shell", "--root", b.TempDir(), "--sandbox", "none", "--allow-command", "*")
	worker.Await(b, "worker started")
	node := site.Start("driver-node")
	node.Await(b, "node started")
	entries := original(b, site)
	node.Stop()
	server, store := site.Server()
	emptyMemory, emptyDisk := resident(b, server.PID()), size(b, store)
	began := time.Now()
	fill(b, site, n, entries)
	took := time.Since(began)
	b.ReportMetric(float64(n*len(entries))/took.Seconds(), "entries/s")
	b.ReportMetric(float64(len(entries))/turns, "entries/turn")
	b.ReportMetric(float64(size(b, store)-emptyDisk)/float64(n*turns), "disk-B/turn")

	server.Kill()
	began = time.Now()
	site.Serve(strings.TrimPrefix(site.NATS, "nats://"))
	c := open(b, site)
	if _, _, err := c.Read(b.Context(), idOf(n-1)); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(began).Seconds(), "s/server-restart")
	server, _ = site.Server()
	b.ReportMetric(float64(resident(b, server.PID())-emptyMemory)/float64(n), "server-B/session")
	look(b, c, n, "-unkept")
	restore(b, site, bin, n)
	node = site.Start("driver-node")
	node.Await(b, "node started")
	began = time.Now()
	awaitKept(b, site, c)
	b.ReportMetric(time.Since(began).Seconds(), "s/kept")
	look(b, c, n, "")
	ask(b, site, n)
	wake(b, c, n)
	b.ReportMetric(float64(resident(b, node.PID()))/1e6, "node-MB")
	node.Stop()
	worker.Stop()
	server.Stop()
}

// turns are those of the conversation.
const turns = 2

// original has a session driven, and returns its entries after it has parked.
func original(b *testing.B, site *clitest.Site) (all []events.Entry) {
	b.Helper()
	c := open(b, site)
	s, err := c.Start(b.Context(), client.Options{ID: "session-original", Config: events.Config{Model: "scripted:test", ModelData: []byte(conversation)}})
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range []string{"How many invoices are there, and which of them are paid?", "Thank you."} {
		if _, err := s.RunText(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	for r, err := range cell(b, site).Journal().Follow(b.Context(), s.ID(), 0) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, r.Entry)
		if slices.Contains(r.Entry.Kinds(), events.KindParked) && len(all) > 2*turns {
			return all
		}
	}
	b.Fatal("the session did not park")
	return nil
}

func cell(b *testing.B, site *clitest.Site) *jetstream.Cell {
	b.Helper()
	c, err := jetstream.Open(clitest.Dial(b, site.NATS), "")
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func open(b *testing.B, site *clitest.Site) *client.Client {
	b.Helper()
	nc, err := nats.Connect(site.NATS, nats.RetryOnFailedConnect(true))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	c, err := client.Open(nc, "")
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func idOf(i int) content.SessionID { return content.SessionID(fmt.Sprintf("session-%07d", i)) }

// fill copies a session.
func fill(b *testing.B, site *clitest.Site, n int, entries []events.Entry) {
	b.Helper()
	to := cell(b, site).Journal()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error {
			var head journal.Head
			for _, e := range entries {
				var err error
				e.Session, e.Events = idOf(i), asked(e.Events, i)
				if head, err = to.Append(ctx, head, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// asked returns events with a different input for each copy, so that each has a different title.
func asked(evs []events.Event, i int) []events.Event {
	evs = slices.Clone(evs)
	for k, ev := range evs {
		if in, ok := ev.(events.InputAccepted); ok {
			in.Items = []content.Item{content.UserText(fmt.Sprintf("How many invoices has customer %x?", sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})))}
			evs[k] = in
		}
	}
	return evs
}

// awaitKept waits until nodes have stored the list of all sessions.
func awaitKept(b *testing.B, site *clitest.Site, c *client.Client) {
	b.Helper()
	end, err := cell(b, site).Journal().End(b.Context(), jetstream.AllSessions)
	if err != nil {
		b.Fatal(err)
	}
	var last uint64
	for at := uint64(0); at < end.Position; {
		for p, err := range c.Pages().After(b.Context(), last) {
			var page struct {
				At client.Changes `msgpack:"a"`
			}
			if err == nil {
				err = wire.Unmarshal(p.Data, wire.Snapshot, &page)
			}
			if err != nil {
				b.Fatal(err)
			}
			last, at = p.Seq, page.At.At.Position
		}
		if !pause.For(b.Context(), time.Second) {
			b.Fatal(b.Context().Err())
		}
	}
}

// look lists and searches, as the gateway does for its page: at first, and then again.
func look(b *testing.B, c *client.Client, n int, how string) {
	b.Helper()
	index := new(report.Index)
	list := func(unit string, q report.Query, want int) {
		began := time.Now()
		p, err := index.List(b.Context(), c, q, func(err error) { b.Error(err) })
		if err != nil || len(p.Sessions) != want {
			b.Fatalf("%s: %d sessions, %v", unit, len(p.Sessions), err)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, unit+how)
	}
	list("ms/first-list", report.Query{Sort: "age", Limit: 50}, 50)
	list("ms/list", report.Query{Sort: "age", Limit: 50}, 50)
	list("ms/search", report.Query{Sort: "age", Search: string(idOf(n / 2)), Limit: 50}, 1)
	list("ms/tool-search", report.Query{Sort: "age", Tool: "shell_*", Limit: 50}, 50)
	began := time.Now()
	used, err := index.Usage(b.Context(), c, report.Period{}, nil, func(err error) { b.Error(err) })
	if err != nil || used.Days[0].Turns < 2*n {
		b.Fatalf("usage: %+v, %v", used, err)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "ms/usage"+how)
}

// ask lists and searches with programs that have just started: the command and a gateway.
func ask(b *testing.B, site *clitest.Site, n int) {
	b.Helper()
	took := func(unit string, f func() string, want int) {
		began := time.Now()
		out := f()
		b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, unit)
		if got := strings.Count(out, "session-"); got != want {
			b.Fatalf("%s: %d sessions, want %d", unit, got, want)
		}
	}
	ls := func(unit string, want int, args ...string) {
		took(unit, func() string { return site.Run(0, "turnlog", append([]string{"sessions", "ls"}, args...)...) }, want)
	}
	ls("ms/ls-50", 50, "--limit", "50")
	ls("ms/ls-search", 1, "--search", string(idOf(n/2)))
	ls("ms/ls-tool", 50, "--tool", "shell_*", "--limit", "50")
	gateway := site.Start("turnlog", "gateway", "--insecure", "--listen", "127.0.0.1:0")
	page := gateway.AwaitMatch(b, `(?m)^(http://127\.0\.0\.1:\d+/)`) + "api/sessions?limit=50"
	get := func(query string) func() string {
		return func() string {
			res, err := http.Get(page + query) //nolint:gosec,noctx // of this test
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				b.Fatal(err)
			}
			return string(body)
		}
	}
	took("ms/page-first", get(""), 50)
	took("ms/page", get(""), 50)
	took("ms/page-search", get("&search="+string(idOf(n/2))), 1)
	took("ms/page-tool", get("&tool=shell_*"), 50)
	gateway.Stop()
}

// restore backs the deployment up, and restores the backup as another deployment.
func restore(b *testing.B, site *clitest.Site, bin string, n int) {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "backup")
	began := time.Now()
	site.Run(0, "turnlog", "backup", dir)
	b.ReportMetric(time.Since(began).Seconds(), "s/backup")
	b.ReportMetric(float64(size(b, dir))/float64(n*turns), "backup-B/turn")
	other := clitest.NewCell(b, bin)
	began = time.Now()
	other.Run(0, "turnlog", "restore", dir)
	b.ReportMetric(time.Since(began).Seconds(), "s/restore")
	if _, _, err := open(b, other).Read(b.Context(), idOf(n-1)); err != nil {
		b.Fatal(err)
	}
	server, _ := other.Server()
	server.Stop()
}

// wake reports how long parked sessions take to answer.
func wake(b *testing.B, c *client.Client, n int) {
	b.Helper()
	const samples = 50
	var took []time.Duration
	for i := range samples {
		s, err := c.Attach(b.Context(), idOf(i*(n/samples)))
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if _, err := s.RunText(b.Context(), "One more question."); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		if err := s.Close(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[samples/2].Microseconds())/1e3, "ms/wake-p50")
	b.ReportMetric(float64(took[samples-1].Microseconds())/1e3, "ms/wake-max")
}

// resident returns the memory of a process, in bytes.
func resident(b *testing.B, pid int) int {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kb << 10
}

// size returns how much a folder holds.
func size(b *testing.B, dir string) (bytes int) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += int(info.Size())
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return bytes
}
