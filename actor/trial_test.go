package actor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
)

// killer is a hook that ends its process when the session "killer" starts, as a command does that takes
// all memory, or a bug that nothing recovers from.
type killer struct {
	w    *world
	name string
	slow time.Duration // from the start to the end

	mu     *sync.Mutex // guards the rest
	nodes  map[string]*turnlogtest.Process
	killed *[]string
	cured  *bool
}

func (killer) Name() string              { return "killer" }
func (killer) Points() []extension.Point { return []extension.Point{extension.SessionStart} }

func (k killer) OnEvent(ctx context.Context, e extension.HookEvent) (extension.Action, error) {
	k.mu.Lock()
	cured, node := *k.cured, k.nodes[k.name]
	k.mu.Unlock()
	if e.Session != "killer" || cured {
		return extension.Action{}, nil
	}
	<-time.After(k.slow)
	k.mu.Lock()
	*k.killed = append(*k.killed, k.name)
	k.mu.Unlock()
	node.Kill()
	<-ctx.Done()
	return extension.Action{}, context.Cause(ctx)
}

// killable starts nodes that the session "killer" ends.
func (w *world) killable(slow time.Duration, names ...string) killer {
	k := killer{w: w, slow: slow, mu: new(sync.Mutex), nodes: make(map[string]*turnlogtest.Process), killed: new([]string), cured: new(bool)}
	for _, name := range names {
		k.name = name
		p := w.node(name, with(k))
		k.mu.Lock()
		k.nodes[name] = p
		k.mu.Unlock()
	}
	return k
}

// drain ends the nodes that live.
func (k killer) drain(t *testing.T) {
	t.Helper()
	for name, p := range k.nodes {
		if !slices.Contains(*k.killed, name) {
			p.Drain(t)
		}
	}
}

func (w *world) setAside() (out []content.SessionID) {
	w.T.Helper()
	all, err := trials.Of(w.Cell).Aside(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, n := range all {
		out = append(out, n.Session)
	}
	return out
}

// aMinute opens a session whose model takes a minute.
func (w *world) aMinute(id string) *session.Session {
	w.T.Helper()
	s := w.Start(content.SessionID(id), "replies:\n  - text: ok\n    delay: 1m\n")
	w.submit(s, "go")
	w.Until(s.ID(), events.KindModelCallStarted)
	return s
}

// A command that ends its node is tried twice if it takes a moment to do so. Otherwise it is tried
// three times: the first node left no note, and the second one took over all of its sessions.
func TestASessionThatBreaksNodesIsSetAside(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		slow  time.Duration
		nodes int
	}{{time.Second, 2}, {0, 3}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			k := w.killable(of.slow, "n1", "n2", "n3", "n4")
			var others []*session.Session
			for i := range 10 {
				others = append(others, w.aMinute(fmt.Sprint("s", i)))
			}
			w.send("killer", "open", commands.OpenSession{Config: events.Config{Model: "scripted:test", ModelData: []byte(oneReply)}})
			<-time.After(time.Minute)
			w.send("killer", "another", commands.Cancel{Scope: commands.ScopeTurn}) // which wakes it
			<-time.After(30 * time.Second)
			if len(*k.killed) != of.nodes {
				t.Fatalf("after %v: it ended %v, want %d nodes", of.slow, *k.killed, of.nodes)
			}
			if got := w.setAside(); !slices.Equal(got, []content.SessionID{"killer"}) {
				t.Fatalf("after %v: set aside: %v", of.slow, got)
			}
			if held, err := w.tokens("killer"); held || err != nil {
				t.Errorf("it has a token: %v, %v", held, err)
			}
			for _, s := range others {
				if got := w.finish(s); got.Text() != "ok" {
					t.Errorf("another session answers %q", got.Text())
				}
			}
			k.mu.Lock()
			*k.cured = true
			k.mu.Unlock()
			if err := trials.Of(w.Cell).Retry(w.Ctx, "killer", "eve"); err != nil {
				t.Fatal(err)
			}
			w.Until("killer", events.KindParked)
			if got := turnlogtest.Facts[events.RunStarted](w.Deployment, "killer"); len(got) != 1 {
				t.Errorf("it was opened %d times", len(got))
			}
			if got := turnlogtest.Facts[events.DriverClaimed](w.Deployment, "killer"); got[len(got)-1].RetriedBy != "eve" || got[len(got)-1].User != "" {
				t.Errorf("claims: %+v, want that the last says eve had it retried, as she says", got)
			}
			if note, err := trials.Of(w.Cell).Get(w.Ctx, "killer"); err != nil || len(note.Broke) > 0 || note.Node != "" {
				t.Errorf("the note about it stays: %+v, %v", note, err)
			}
			k.drain(t)
		})
	}
}

// Nodes are killed one after another while they take over hundreds of sessions, and none is to blame.
func TestNoSessionIsSetAsideForAKilledNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		var all []*session.Session
		for i := range 96 { // three times as many as a node takes over at a time
			all = append(all, w.aMinute(fmt.Sprint("s", i)))
		}
		second, third := w.node("n2"), w.node("n3")
		first.Crash(t)
		for len(w.owners("s0"))+len(w.owners("s48"))+len(w.owners("s95")) < 4 {
			<-time.After(10 * time.Millisecond)
		}
		second.Crash(t)
		<-time.After(2 * time.Second)
		fourth := w.node("n4")
		third.Crash(t)
		for _, s := range all {
			if got := w.finish(s); got.Text() != "ok" {
				t.Errorf("answer = %q", got.Text())
			}
		}
		if got := w.setAside(); len(got) > 0 {
			t.Errorf("set aside: %v", got)
		}
		fourth.Drain(t)
	})
}
