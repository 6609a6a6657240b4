package actor_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/signers"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// signedWorld is a world whose cell has a directory of keys.
type signedWorld struct {
	*world

	root    *keys.Signer
	dir     *keys.Directory
	counted *counted
}

func newSignedWorld(t *testing.T) *signedWorld {
	t.Helper()
	root, err := keys.NewRoot()
	if err != nil {
		t.Fatal(err)
	}
	w := &signedWorld{world: newWorld(t), root: root, dir: &keys.Directory{Cell: "turnlog"}, counted: &counted{of: map[string]int{}}}
	return w
}

// key makes a key and adds it to the directory, which publish publishes.
func (w *signedWorld) key(name string, roles ...keys.Role) *keys.Signer {
	w.T.Helper()
	k, err := keys.New()
	if err != nil {
		w.T.Fatal(err)
	}
	w.dir.Keys = append(w.dir.Keys, keys.Key{Public: k.Public(), Roles: roles, Name: name, From: w.now()})
	return k
}

func (w *signedWorld) now() content.Time { return content.TimeOf(time.Now().Truncate(time.Second)) }

// publish signs the next version of the directory.
func (w *signedWorld) publish() {
	w.T.Helper()
	w.dir.Version, w.dir.At = w.dir.Version+1, w.now()
	raw, err := w.dir.Sign(w.root)
	if err == nil {
		err = signers.Publish(w.Ctx, w.Cell, w.dir.Version, raw)
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// require makes the roles sign from now on.
func (w *signedWorld) require(roles ...keys.Role) {
	w.T.Helper()
	for _, r := range roles {
		w.dir.Require(r, w.now())
	}
	w.publish()
}

// signer makes a node sign with a key, and check signatures.
func (w *signedWorld) signer(k *keys.Signer) func(*actor.Config) {
	return func(c *actor.Config) { c.Key, c.Root, c.Metrics = k, w.root.Public(), w.counted }
}

// judge verifies a session with the keys.
func (w *signedWorld) judge(s content.SessionID, every bool) *verdict.Verdict {
	w.T.Helper()
	return w.judgeAll(w.Cell.Journal().Read(w.Ctx, s, 0), every)
}

func (w *signedWorld) judgeAll(records iter.Seq2[journal.Record, error], every bool) *verdict.Verdict {
	w.T.Helper()
	raw, err := w.dir.Sign(w.root)
	if err != nil {
		w.T.Fatal(err)
	}
	d, err := keys.Open(raw, w.root.Public())
	if err != nil {
		w.T.Fatal(err)
	}
	who := signed.NewAudit(d, every)
	v, err := audit.Verify(who.Watch(records))
	if err != nil {
		w.T.Fatal(err)
	}
	who.Judge(v)
	return v
}

// counted counts what nodes refuse as forged.
type counted struct {
	mu sync.Mutex
	of map[string]int
}

func (*counted) SessionTaken()                                   {}
func (*counted) SessionLeft(string)                              {}
func (*counted) EntryAppended(events.Entry, bool, time.Duration) {}
func (*counted) EffectStarted(string)                            {}
func (c *counted) CommandHandled(name, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if outcome == "forged" {
		c.of[name]++
	}
}

func (c *counted) forged(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[what]
}

func TestANodeSignsEveryEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		first, second := w.key("node-1", keys.Driver), w.key("node-2", keys.Driver)
		w.require(keys.Driver)
		n := w.node("n1", w.signer(first))
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		w.finish(s)
		n.Drain(t)
		for _, k := range []*keys.Signer{second, first, second} {
			n = w.node("n2", w.signer(k))
			w.submit(s, "again")
			w.finish(s)
			n.Drain(t)
		}
		v := w.judge("s", false)
		if v.Level != verdict.Signed || len(v.Signers) < 2 || v.Signers[0].Name != "node-1" || v.Signers[1].Name != "node-2" {
			t.Errorf("level %s, signers %v, faults %v; want it signed by two nodes", v.Level, v.Signers, v.Faults)
		}
		if every := w.judge("s", true); every.Level != verdict.Signed {
			t.Errorf("every signature: level %s, faults %v", every.Level, every.Faults)
		}
		claims := turnlogtest.Facts[events.DriverClaimed](w.Deployment, "s")
		if len(claims) < 2 || claims[0].Key != first.ID() || claims[0].Keys != 1 {
			t.Errorf("claims = %+v, want the key and the version of the directory", claims)
		}
		of := map[string]uint64{}
		for r, err := range w.Cell.Journal().Read(w.Ctx, "s", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if c, ok := r.Entry.Events[0].(events.DriverClaimed); ok && c.Checked != of[c.Key] {
				t.Errorf("entry %d: the claim says that it checked entry %d, and the last one by its key is %d", r.Seq, c.Checked, of[c.Key])
			}
			of[r.Signature.Key] = r.Seq
		}
		if len(of) != 2 {
			t.Errorf("entries have signatures by %d keys, want 2", len(of))
		}
		if n := w.counted.forged("entry"); n != 0 {
			t.Errorf("%d entries refused", n)
		}
	})
}

func TestAnUnsignedCellSaysUnsigned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		w.publish()
		w.worker(echoed)
		n := w.node("n1", w.signer(nil))
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		w.finish(s)
		n.Drain(t)
		v := w.judge("s", false)
		if v.Level != verdict.Chain || len(v.Faults) > 0 || len(v.Signers) == 0 || v.Signers[0].Key != "" {
			t.Errorf("level %s, signers %v, faults %v; want an unsigned chain", v.Level, v.Signers, v.Faults)
		}
	})
}

// A writer of journals who has no key approves a call in the name of a person.
func TestAForgedEntryIsRefused(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(w *signedWorld, last journal.Record, e *events.Entry) *keys.Signer{
		"unsigned": func(*signedWorld, journal.Record, *events.Entry) *keys.Signer { return nil },
		"by an unknown key": func(*signedWorld, journal.Record, *events.Entry) *keys.Signer {
			k, _ := keys.New()
			return k
		},
		"unsigned, with a claim": func(_ *signedWorld, last journal.Record, e *events.Entry) *keys.Signer {
			e.Epoch = last.Entry.Epoch + 1
			e.Events = slices.Insert(e.Events, 0, events.Event(events.DriverClaimed{Epoch: e.Epoch, Node: "n1", Tickets: true}))
			return nil
		},
		"by a person": func(w *signedWorld, last journal.Record, e *events.Entry) *keys.Signer {
			k := w.key("eve", keys.Approver)
			w.publish()
			e.Epoch = last.Entry.Epoch + 1
			e.Events = slices.Insert(e.Events, 0, events.Event(events.DriverClaimed{Epoch: e.Epoch, Node: "n1", Tickets: true, Key: k.ID()}))
			return k
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newSignedWorld(t)
				ran := 0
				w.workerOf(tool.Spec{Name: "echo", Effects: content.Once}, func(x task.Task) tool.Result {
					ran++
					return echoed(x)
				})
				node := w.key("node-1", keys.Driver)
				w.require(keys.Driver)
				n := w.node("n1", w.signer(node))
				w.asked("s")
				n.Drain(t)
				asked := turnlogtest.Facts[events.ApprovalRequired](w.Deployment, "s")[0].Approval
				last, err := w.Cell.Journal().Last(w.Ctx, "s")
				if err != nil {
					t.Fatal(err)
				}
				e := events.Entry{Session: "s", Cause: "forged", At: last.Entry.At, Epoch: last.Entry.Epoch, Events: []events.Event{
					events.ApprovalResolved{Approval: asked.ID, Call: asked.CallID, Outcome: events.Approved, By: "alice", Digest: asked.Digest},
					events.ToolDispatched{Call: asked.CallID, Place: asked.TaskID, Attempt: 1, Queue: "q", Digest: asked.Digest},
				}}
				by := forge(w, last, &e)
				if _, err := w.Cell.Signing(by).Journal().Append(w.Ctx, last.Head, e); err != nil {
					t.Fatal(err)
				}
				n = w.node("n2", w.signer(node))
				if err := w.Cell.Runs().Wake(w.Ctx, "s"); err != nil {
					t.Fatal(err)
				}
				<-time.After(30 * time.Second)
				if ran != 0 || w.counted.forged("entry") == 0 {
					t.Errorf("the call ran %d times, %d entries were refused; want 0 and some", ran, w.counted.forged("entry"))
				}
				n.Crash(t)
				v := w.judge("s", false)
				if f, _ := v.First(); v.Exit(verdict.Chain) != verdict.ExitFault || f.Kind != verdict.Forged || f.Seq != last.Seq+1 {
					t.Errorf("verdict %s: %v, want entry %d forged", v.Level, v.Faults, last.Seq+1)
				}
			})
		})
	}
}

// A writer of journals without a key adds text to a session, which a user forks at an earlier entry.
func TestAForkOfForgedEntriesIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		node := w.key("node-1", keys.Driver)
		w.require(keys.Driver)
		n := w.node("n1", w.signer(node))
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		w.finish(s)
		n.Drain(t)
		stranger, err := keys.New()
		last, err2 := w.Cell.Journal().Last(w.Ctx, "s")
		err = errors.Join(err, err2)
		for i, evs := range [][]events.Event{
			{events.DriverClaimed{Epoch: last.Entry.Epoch + 1, Node: "n1", Key: stranger.ID()}, events.Warning{Code: "forged"}},
			{events.Warning{Code: "later"}},
		} {
			e := events.Entry{Session: "s", Cause: "forged/" + strconv.Itoa(i), At: last.Entry.At, Epoch: last.Entry.Epoch + 1, Events: evs}
			if err == nil {
				last.Head, err = w.Cell.Signing(stranger).Journal().Append(w.Ctx, last.Head, e)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		n = w.node("n2", w.signer(node))
		for seq, forged := range map[uint64]bool{last.Seq - 2: false, last.Seq - 1: true} {
			_, err := w.Client.Start(w.Ctx, client.Options{From: events.EntryRef{Session: "s", Seq: seq}})
			if refused := err != nil && strings.Contains(err.Error(), commands.ReasonBadTranscript); refused != forged || !forged && err != nil {
				t.Errorf("fork of entry %d = %v, want it refused %t", seq, err, forged)
			}
		}
		if w.counted.forged("entry") == 0 {
			t.Error("no entry is counted")
		}
		n.Crash(t)
	})
}

// A writer of journals without a key writes a session from before drivers had to sign, as if it had been moved here.
func TestAPretendedMoveIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		node := w.key("node-1", keys.Driver)
		before := w.now()
		<-time.After(time.Hour)
		w.require(keys.Driver)
		at := journal.Head{}
		config := events.Config{Model: "scripted:test", ModelData: []byte(oneReply)}
		input := []content.Item{content.UserText("forged")}
		for i, evs := range [][]events.Event{
			{events.DriverClaimed{Epoch: 1, Node: "n1"}}, {events.RunStarted{Config: config}}, {events.InputQueued{Items: input, Origin: events.FromHost}},
		} {
			e, payload, next, err := journal.Link(at, events.Entry{Session: "s", Cause: "cmd-" + strconv.Itoa(i), At: before, Epoch: 1, Events: evs})
			if err != nil {
				t.Fatal(err)
			}
			at = next
			w.arrived(e, payload, next)
		}
		n := w.node("n1", w.signer(node))
		if err := w.Cell.Runs().Wake(w.Ctx, "s"); err != nil {
			t.Fatal(err)
		}
		<-time.After(30 * time.Second)
		if last, err := w.Cell.Journal().Last(w.Ctx, "s"); err != nil || last.Seq != at.Seq || w.counted.forged("entry") == 0 {
			t.Errorf("the journal goes on to entry %d, %v", last.Seq, err)
		}
		n.Crash(t)
		if v := w.judge("s", false); v.Exit(verdict.Chain) != verdict.ExitFault {
			t.Errorf("level %s, faults %v", v.Level, v.Faults)
		}
	})
}

// arrived stores an entry as a move does.
func (w *signedWorld) arrived(e events.Entry, payload []byte, head journal.Head) {
	w.T.Helper()
	msg := nats.NewMsg("turnlog.journal." + string(e.Session))
	msg.Data = payload
	for name, value := range map[string]string{
		"Turnlog-Seq": strconv.FormatUint(head.Seq, 10), "Turnlog-Hash": head.Hash.String(), "Turnlog-Stored": e.At.Std().UTC().Format(time.RFC3339Nano),
	} {
		msg.Header.Set(name, value)
	}
	if _, err := w.Connect().RequestMsgWithContext(w.Ctx, msg); err != nil {
		w.T.Fatal(err)
	}
}

func noModels(string, []byte) (model.Model, error) { return nil, errors.New("no model is called") }

// A writer of journals and snapshots without a key writes an entry that confirms a forged snapshot.
func TestAnUnsignedEntryConfirmsNoSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		node := w.key("node-1", keys.Driver)
		w.publish() // signatures are not required
		n := w.node("n1", w.signer(node), snapshotAlways)
		s := w.Start("s", twoSteps)
		w.submit(s, "go")
		w.finish(s)
		n.Drain(t)
		w.forge("s", true)
		n = w.node("n2", w.signer(node))
		w.submit(s, "again")
		w.finish(s)
		n.Drain(t)
		v := w.judge("s", false)
		if f, _ := v.First(); v.Turns != 2 || f.Kind != verdict.Forged || !strings.Contains(f.What, "snapshot") {
			t.Errorf("%d turns, faults %v", v.Turns, v.Faults)
		}
		for rec, err := range w.Cell.Journal().Read(w.Ctx, "s", 0) {
			if err != nil || strings.Contains(string(rec.Payload), "give eve") {
				t.Errorf("entry %d says what was forged, %v", rec.Seq, err)
			}
		}
	})
}

func TestARevokedNodeStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		node := w.key("node-1", keys.Driver)
		w.publish()
		n, err := actor.NewNode(w.Open(w.Connect()), actor.Config{Models: noModels, Key: node, Root: w.root.Public()})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
		defer cancel()
		go func() { ended <- n.Run(ctx) }()
		<-n.Ready()
		<-time.After(time.Second)
		w.dir.Keys[0].Revoked = &keys.Revocation{At: w.now(), Reason: "stolen"}
		w.publish()
		if err := <-ended; !errors.Is(err, keys.ErrRevoked) {
			t.Errorf("Run = %v, want ErrRevoked", err)
		}
	})
}

func TestANodeStartsOnlyWithKeysThatOthersAccept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		run := func(k *keys.Signer, root string) error {
			n, err := actor.NewNode(w.Open(w.Connect()), actor.Config{Models: noModels, Key: k, Root: root})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(w.Ctx, 3*time.Second)
			defer cancel()
			return n.Run(ctx)
		}
		stranger, person := w.key("stranger"), w.key("ada", keys.Client)
		w.dir.Keys = w.dir.Keys[1:]
		if err := run(nil, w.root.Public()); !errors.Is(err, signers.ErrNone) {
			t.Errorf("without a directory: %v, want ErrNone", err)
		}
		w.publish()
		for name, tt := range map[string]struct {
			key  *keys.Signer
			root string
			want error
		}{
			"a key that is not listed": {stranger, w.root.Public(), keys.ErrUnknown},
			"a person's key":           {person, w.root.Public(), keys.ErrRole},
			"another root":             {nil, "O", keys.ErrBadKey},
			"no key":                   {nil, w.root.Public(), nil},
			"no root":                  {stranger, "", nil},
		} {
			if err := run(tt.key, tt.root); !errors.Is(err, tt.want) {
				t.Errorf("%s: Run = %v, want %v", name, err, tt.want)
			}
		}
	})
}

// If a cell's directory is older than the one that the session's last driver used, it was rolled back.
func TestARolledBackDirectoryIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSignedWorld(t)
		node := w.key("node-1", keys.Driver)
		w.publish()
		n := w.node("n1", w.signer(node))
		s := w.Start("s", twoSteps)
		w.submit(s, "go")
		w.finish(s)
		n.Drain(t)
		last, err := w.Cell.Journal().Last(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		claim := events.DriverClaimed{Epoch: last.Entry.Epoch + 1, Node: "n9", Tickets: true, Key: node.ID(), Keys: 2}
		e := events.Entry{Session: "s", Cause: "claim", At: last.Entry.At, Epoch: claim.Epoch, Events: []events.Event{claim}}
		head, err := w.Cell.Signing(node).Journal().Append(w.Ctx, last.Head, e)
		if err != nil {
			t.Fatal(err)
		}
		n = w.node("n2", w.signer(node))
		w.send("s", "again", commands.SubmitInput{Items: []content.Item{content.UserText("again")}})
		<-time.After(30 * time.Second)
		if after, err := w.Cell.Journal().Last(w.Ctx, "s"); err != nil || after.Seq != head.Seq {
			t.Errorf("a node with version 1 of the keys drove it to %d, %v", after.Seq, err)
		}
		w.publish()
		w.Until("s", events.KindInputQueued)
		n.Drain(t)
	})
}

// asked starts a session that asks about its only call.
func (w *signedWorld) asked(id content.SessionID) *session.Session {
	s := w.Start(id, oneCall, asksFirst)
	w.submit(s, "go")
	w.Until(id, events.KindApprovalRequired)
	return s
}

// asksFirst has a session ask about every call.
func asksFirst(o *client.Options) {
	o.Config.Rules = []events.Rule{{Tool: "*", Action: events.RuleAsk}}
}

const twoSteps = `
replies:
  - text: one
  - text: two
`
