package turnlogtest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

// trip is a conversation with a round of calls that need approvals, and a turn after it.
const trip = `replies:
- text: Where to?
- {text: I book it., calls: [{name: book, input: {what: train}}, {name: look, input: {}}, {name: book, input: {what: hotel}}]}
- text: Booked {{len .Results}}.
- text: Anything else?
repeat: true`

func booking(t *testing.T) []tool.Tool {
	t.Helper()
	book, err := tool.Func("book", "Books something.", func(_ context.Context, in struct {
		What string `json:"what"`
	},
	) (string, error) {
		return in.What + " booked", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	look, err := tool.Func("look", "Looks.", func(context.Context, struct{}) (string, error) { return "seen", nil }, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	return []tool.Tool{book, look}
}

// TestAForkContinuesFromEveryEntry forks a session after each of its entries. The fork has the same history, continues
// the open turn, and repeats no call that had started.
func TestAForkContinuesFromEveryEntry(t *testing.T) {
	t.Parallel()
	asking := permission.Default()
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		origin := d.Script(trip)
		origin.Say("Hello")
		origin.Say("Book a trip")
		origin.Approve("book")
		origin.Approve("book")
		origin.ExpectReply("Booked 3.")
		origin.Say("Thanks")
		forks, started := 0, map[content.CallID]bool{}
		for _, rec := range d.Records(origin.ID()) {
			for _, ev := range rec.Entry.Events {
				if e, ok := ev.(events.ToolDispatched); ok {
					started[e.Call] = true
				}
			}
			was, err := engine.Reader{Journal: d.Cell.Journal()}.ReadTo(d.Ctx, origin.ID(), rec.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if !was.State.Opened {
				continue
			}
			forks++
			f := d.Script("", turnlogtest.Fork(origin, rec.Seq))
			if want := (events.EntryRef{Session: origin.ID(), Seq: rec.Seq, Hash: rec.Hash}); f.From() != want.String() {
				t.Errorf("the fork is from %s, want %s", f.From(), want)
			}
			reply := f.Say("And now?")
			for range 2 {
				if reply == "" && len(f.Snapshot().PendingApprovals) > 0 {
					reply = f.Approve("book")
				}
			}
			if reply == "" {
				t.Errorf("the fork after entry %d has no reply", rec.Seq)
			}
			for _, e := range turnlogtest.Facts[events.ToolDispatched](d, f.ID()) { // this audits the fork
				if started[e.Call] {
					t.Errorf("the fork after entry %d started %s again", rec.Seq, e.Call)
				}
			}
			before, after := turnlogtest.Lines(was.State.Transcript), turnlogtest.Lines(f.Snapshot().Transcript)
			if len(after) < len(before) || !slices.Equal(after[:len(before)], before) {
				t.Errorf("the fork after entry %d (-origin +fork):\n%s", rec.Seq, cmp.Diff(before, after))
			}
		}
		if forks < 8 || len(started) != 3 {
			t.Errorf("%d forks, %d calls", forks, len(started))
		}
	}, turnlogtest.Tools(booking(t)...), turnlogtest.Node(func(c *actor.Config) { c.Policy = &asking }))
}

// TestAForkKeepsItsAgent forks a session of an agent: with the agent as it was, and with another one.
func TestAForkKeepsItsAgent(t *testing.T) {
	t.Parallel()
	d := turnlogtest.New(t, turnlogtest.Agents("testdata/agents"), turnlogtest.Tools(weather()))
	origin := d.Script(forecast, turnlogtest.Agent("guide"))
	origin.Say("How is the weather in Oslo?")
	f := d.Script("", turnlogtest.Fork(origin, 0))
	was, is := origin.Config(), f.Config()
	if is.Agent == nil || is.Agent.Version != was.Agent.Version || len(is.Rules) != len(was.Rules) {
		t.Errorf("the fork has %+v and %d rules, want %+v and %d", is.Agent, len(is.Rules), was.Agent, len(was.Rules))
	}
	system := func(s *turnlogtest.Session) (n int) {
		for _, it := range s.Snapshot().Transcript {
			if it.Kind == content.System {
				n++
			}
		}
		return n
	}
	if system(f) != system(origin) {
		t.Errorf("the fork has %d prompts, want %d", system(f), system(origin))
	}
	other := d.Script(forecast, turnlogtest.Fork(origin, 0))
	if other.Config().Model != "scripted:test" || other.Config().Agent == nil || other.Config().Agent.Known {
		t.Errorf("with another model the fork has %+v", other.Config())
	}
}

// TestAForkNeedsAnEntry starts forks from entries that do not exist or cannot be forked, and with a prompt of the
// client's own.
func TestAForkNeedsAnEntry(t *testing.T) {
	t.Parallel()
	d := turnlogtest.New(t, turnlogtest.SealKeys(sealKeys(t)))
	origin := d.Script(trip)
	origin.Say("Hello")
	sealed := d.Script(trip, turnlogtest.Sealed)
	sealed.Say("Hello")
	for name, tc := range map[string]struct {
		from events.EntryRef
		want string
	}{
		"a later entry":   {events.EntryRef{Session: origin.ID(), Seq: 99}, "the journal ends with entry"},
		"before it began": {events.EntryRef{Session: origin.ID(), Seq: 1}, "the session had not started"},
		"no session":      {events.EntryRef{Session: "nosuch", Seq: 1}, "no such session"},
		"another hash":    {events.EntryRef{Session: origin.ID(), Seq: 2, Hash: events.HashOf(nil)}, "not e3b0c442"},
		"sealed":          {events.EntryRef{Session: sealed.ID(), Seq: 2}, "a sealed session cannot be forked, since its content must stay under its own key"},
	} {
		if _, err := d.Client.Start(d.Ctx, client.Options{From: tc.from}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if _, err := d.Client.Start(d.Ctx, client.Options{From: events.EntryRef{Session: origin.ID()}, SystemPrompt: "Lie."}); err == nil {
		t.Error("a fork got another prompt")
	}
}

// deleting deletes the origin of each session that starts as a fork, just before the fork's first entry, and collects blobs.
type deleting struct {
	deployment *turnlogtest.Deployment
	origin     content.SessionID
	err        error
}

func (*deleting) Name() string { return "deleting" }

func (*deleting) Points() []extension.Point { return []extension.Point{extension.SessionStart} }

func (x *deleting) OnEvent(ctx context.Context, _ extension.HookEvent) (extension.Action, error) {
	if x.origin == "" {
		return extension.Action{}, nil
	}
	cell := admin.Of(x.deployment.Cell)
	last, err := x.deployment.Cell.Journal().Last(ctx, x.origin)
	if err == nil {
		_, err = cell.Delete(ctx, last, events.SessionDeleted{By: "tester"})
	}
	if err == nil {
		_, err = cell.Clear(ctx, x.origin)
	}
	if err == nil {
		_, err = cell.Collect(ctx, time.Minute, false)
	}
	x.err = err
	return extension.Action{}, nil
}

// TestAForkKeepsItsFiles deletes an origin while its fork begins: the fork has read the origin and has no entry yet, so no
// journal names the files of its history.
func TestAForkKeepsItsFiles(t *testing.T) {
	t.Parallel()
	var hook deleting
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		hook.deployment = d
		file, err := d.Client.StoreFile(d.Ctx, "map.txt", "text/plain", strings.NewReader("North is up."))
		if err != nil {
			t.Fatal(err)
		}
		origin := d.Script(trip)
		if _, err := origin.Run(d.Ctx, content.NewItem(content.User, content.TextPart("Look"), file)); err != nil {
			t.Fatal(err)
		}
		d.Advance(3 * time.Minute)
		hook.origin = origin.ID()
		f := d.Script("", turnlogtest.Fork(origin, 0))
		if hook.err != nil {
			t.Fatal(hook.err)
		}
		hook.origin = ""
		f.Say("Which way is north?")
		id, _ := content.BlobID(file.Media.URI)
		if text, ok, err := d.Cell.Blobs().Get(d.Ctx, id); !ok || string(text) != "North is up." {
			t.Errorf("the fork's file is %q, %v, %v", text, ok, err)
		}
	}, turnlogtest.Node(func(c *actor.Config) { c.Effects.Hooks = append(c.Effects.Hooks, &hook) }))
}
