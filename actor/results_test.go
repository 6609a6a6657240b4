package actor_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// slowAppends makes a driver wait after each entry, so that reports arrive meanwhile.
type slowAppends struct{}

func (slowAppends) SessionTaken()                                   {}
func (slowAppends) SessionLeft(string)                              {}
func (slowAppends) CommandHandled(string, string)                   {}
func (slowAppends) EntryAppended(events.Entry, bool, time.Duration) { <-time.After(time.Second) }
func (slowAppends) EffectStarted(string)                            {}

// Without that, each result would have a separate entry.
func TestResultsThatAreReadyTogetherShareAnEntry(t *testing.T) {
	t.Parallel()
	const calls = 12
	script := "replies:\n  - calls: [" + strings.TrimSuffix(strings.Repeat("{name: killable, input: {}}, ", calls), ", ") + "]\n" +
		"  - text: \"{{len .Results}}\"\n"
	for name, c := range map[string]struct {
		local, crash bool
		most         int // entries with results
	}{
		"of a worker":             {most: 2},
		"of the node":             {most: 2, local: true},
		"while there was no node": {most: 1, crash: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := killable{effects: content.ReadOnly, began: make(chan string, calls), answer: make(chan struct{}), worker: "w"}
				cfg := actor.Config{Name: "n1", Metrics: slowAppends{}}
				node := func() *turnlogtest.Process { return w.Node(cfg) }
				if c.local {
					node = func() *turnlogtest.Process { return w.NodeWithTools(cfg, worker.Config{Slots: calls}, k) }
				} else {
					w.Worker("w", worker.Config{Slots: calls}, func(*nats.Conn) []tool.Tool { return []tool.Tool{k} })
				}
				n := node()
				s := w.startWith("s", script, func(c *events.Config) { c.MaxParallel = calls })
				w.submit(s, "go")
				for range calls {
					<-k.began
				}
				if c.crash {
					n.Crash(t)
				}
				close(k.answer)
				if c.crash {
					synctest.Wait()
					cfg.Name = "n2"
					node()
				}
				<-time.After(time.Minute)
				if got := w.finish(s); got.Text() != "12" {
					t.Errorf("answer = %q", got.Text())
				}
				entries := 0
				for _, rec := range w.Records("s") {
					if slices.ContainsFunc(rec.Entry.Events, func(ev events.Event) bool { return events.KindOf(ev) == events.KindToolResultReceived }) {
						entries++
					}
				}
				if entries > c.most {
					t.Errorf("%d results took %d entries, want %d", calls, entries, c.most)
				}
			})
		})
	}
}
