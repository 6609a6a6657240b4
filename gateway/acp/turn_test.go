package acp_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/turnlogtest"
)

const (
	once = `
replies:
  - {text: I stamp it., chunk: 3, calls: [{name: stamp, input: {text: a}}]}
  - {text: It is stamped., chunk: 3}
  - {text: "You said {{.Prompt}}", repeat: true}
`
	twice = `
replies:
  - {calls: [{name: stamp, input: {text: a}}]}
  - {calls: [{name: stamp, input: {text: b}}]}
  - {text: done, repeat: true}
`
)

func allow(o *client.Options) { o.Config.Rules = nil }

func TestATurnWithAToolIsShownAndThenEnds(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, once, allow)
		defer e.leave()
		r, err := e.agent.Initialize(t.Context(), sdk.InitializeRequest{ProtocolVersion: 1})
		if err != nil || r.ProtocolVersion != 1 || !r.AgentCapabilities.LoadSession {
			t.Fatalf("%+v, %v", r, err)
		}
		id := e.open()
		expect(t, e.prompt(id, "Stamp a."), sdk.StopReasonEndTurn)
		expect(t, e.prompt(id, "Thanks."), sdk.StopReasonEndTurn)
		shown := []string{"agent: I stamp it.", "t1-r1-c1 stamp pending", "t1-r1-c1 in_progress", "t1-r1-c1 completed", "agent: It is stamped.", "You said Thanks."}
		want := append(slices.Clone(shown[:4]), shown[4]+shown[5])
		if diff := cmp.Diff(want, e.lines()); diff != "" {
			t.Error(diff)
		}
		late := connect(t, d, once)
		defer late.leave()
		late.load(id)
		if diff := cmp.Diff(slices.Concat([]string{"user: Stamp a."}, shown[:5], []string{"user: Thanks.", "agent: " + shown[5]}), late.lines()); diff != "" {
			t.Errorf("loaded: %s", diff)
		}
	}, turnlogtest.Tools(stamp(t)))
}

func TestAnEditorDecidesWhatASessionAsks(t *testing.T) {
	for _, c := range []struct {
		answers []sdk.PermissionOptionId
		want    []string // statuses at the end
		result  string
	}{
		{[]sdk.PermissionOptionId{"allow_once", "allow_once"}, []string{"t1-r1-c1 completed", "t1-r2-c1 completed"}, "stamped b"},
		{[]sdk.PermissionOptionId{"allow_always"}, []string{"t1-r1-c1 completed", "t1-r2-c1 completed"}, "stamped b"},
		{[]sdk.PermissionOptionId{"allow_once", "reject_once"}, []string{"t1-r1-c1 completed", "t1-r2-c1 failed"}, "denied"},
	} {
		turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
			e := connect(t, d, twice)
			defer e.leave()
			id := e.open()
			over := e.prompt(id, "Go.")
			for _, a := range c.answers {
				r := <-e.asked
				if *r.ToolCall.Title != "stamp" || len(r.Options) != 3 || r.SessionId != id {
					t.Errorf("asked %+v", r)
				}
				e.answers <- a
			}
			expect(t, over, sdk.StopReasonEndTurn)
			for _, line := range c.want {
				if !slices.Contains(e.lines(), line) {
					t.Errorf("%v: no %q in %q", c.answers, line, e.lines())
				}
			}
			last := e.updates[len(e.updates)-2].ToolCallUpdate
			if text := last.Content[0].Content.Content.Text.Text; !strings.Contains(text, c.result) {
				t.Errorf("%v: the result is %q, want %q", c.answers, text, c.result)
			}
			for _, r := range turnlogtest.Facts[events.ApprovalResolved](d, content.SessionID(id)) {
				if r.Decider() != "ann (claimed)" && r.Grant == "" {
					t.Errorf("decided by %q", r.Decider())
				}
			}
		}, turnlogtest.Tools(stamp(t)))
	}
}

func TestAnEditorThatLeavesLosesNothing(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		first := connect(t, d, twice)
		id := first.open()
		first.prompt(id, "Go.")
		<-first.asked
		first.answers <- "allow_once"
		<-first.asked
		first.leave()
		if got := <-first.gone; got != "t1-r2-c1" {
			t.Errorf("the question about %s ended", got)
		}

		second := connect(t, d, twice)
		defer second.leave()
		second.load(id)
		if r := <-second.asked; r.ToolCall.ToolCallId != "t1-r2-c1" {
			t.Errorf("asked again: %+v", r)
		}
		over := second.prompt(id, "And then?")
		second.answers <- "allow_once"
		expect(t, over, sdk.StopReasonEndTurn)
		want := []string{
			"user: Go.", "t1-r1-c1 stamp pending", "t1-r1-c1 in_progress", "t1-r1-c1 completed", "t1-r2-c1 stamp pending", "t1-r2-c1 in_progress", "t1-r2-c1 completed",
			"agent: donedone",
		}
		if diff := cmp.Diff(want, second.lines()); diff != "" {
			t.Error(diff)
		}
	}, turnlogtest.Tools(stamp(t)))
}

func TestACancelEndsTheTurn(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, twice)
		defer e.leave()
		id := e.open()
		over := e.prompt(id, "Go.")
		<-e.asked
		queued := e.prompt(id, "And then?")
		synctest.Wait()
		if err := e.agent.Cancel(t.Context(), sdk.CancelNotification{SessionId: id}); err != nil {
			t.Fatal(err)
		}
		expect(t, over, sdk.StopReasonCancelled)
		expect(t, queued, sdk.StopReasonCancelled)
		if got := <-e.gone; got != "t1-r1-c1" {
			t.Errorf("the question about %s ended", got)
		}
		if ends := turnlogtest.Facts[events.TurnFinished](d, content.SessionID(id)); len(ends) != 2 {
			t.Errorf("turns: %+v", ends)
		}
	}, turnlogtest.Tools(stamp(t)))
}

// The end of the program does not cancel the turn. A canceled request does.
func TestOnlyAnEditorCancels(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, twice)
		id := e.open()
		over := e.prompt(id, "Go.")
		<-e.asked
		e.stop()
		if got := <-over; got.err == nil {
			t.Errorf("the turn ended with %q", got.StopReason)
		}
		if ends := turnlogtest.Facts[events.TurnFinished](d, content.SessionID(id)); len(ends) != 0 {
			t.Fatalf("the end of the program ended the turn: %+v", ends)
		}

		e = connect(t, d, twice)
		defer e.leave()
		e.load(id)
		<-e.asked
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = e.agent.Prompt(ctx, sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("Stop.")}})
		}()
		synctest.Wait()
		cancel()
		<-ended
		if got := <-e.gone; got != "t1-r1-c1" {
			t.Errorf("the question about %s ended", got)
		}
	}, turnlogtest.Tools(stamp(t)))
}

func TestASessionIsLoadedAgainInTheMiddleOfAPrompt(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, once)
		defer e.leave()
		id := e.open()
		over := e.prompt(id, "Stamp a.")
		<-e.asked
		e.load(id)
		if got := <-over; code(got.err) != -32800 || !strings.Contains(got.err.Error(), "its turn continues") {
			t.Errorf("the prompt ended with %+v", got)
		}
		<-e.gone
		<-e.asked
		e.answers <- "allow_once"
		expect(t, e.prompt(id, "Thanks."), sdk.StopReasonEndTurn)
	}, turnlogtest.Tools(stamp(t)))
}

// The node accepts the prompt only after the session was loaded again. The prompt waits for that, and then its error says that the
// turn continues.
func TestASessionIsLoadedAgainBeforeItsPromptIsAccepted(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, once)
		defer e.leave()
		id := e.open()
		goOn := d.Inject(turnlogtest.NodeFrozen)
		over := e.prompt(id, "Stamp a.")
		synctest.Wait()
		loaded := make(chan struct{})
		go func() {
			defer close(loaded)
			e.load(id)
		}()
		synctest.Wait()
		goOn()
		if got := <-over; code(got.err) != -32800 || !strings.Contains(got.err.Error(), "its turn continues") {
			t.Errorf("the prompt ended with %+v", got)
		}
		<-loaded
		<-e.asked
		e.answers <- "allow_once"
		expect(t, e.prompt(id, "Thanks."), sdk.StopReasonEndTurn)
	}, turnlogtest.Tools(stamp(t)), turnlogtest.Faulty())
}

func TestTwoEditorsHaveOneSession(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		ann, bob := connect(t, d, once), connect(t, d, once)
		defer ann.leave()
		defer bob.leave()
		id := ann.open()
		bob.load(id)
		over := ann.prompt(id, "Stamp a.")
		<-ann.asked
		<-bob.asked
		bob.answers <- "allow_once"
		expect(t, over, sdk.StopReasonEndTurn)
		if got := <-ann.gone; got != "t1-r1-c1" {
			t.Errorf("the question about %s ended", got)
		}
		expect(t, bob.prompt(id, "Thanks."), sdk.StopReasonEndTurn)
		synctest.Wait()
		shown := []string{"agent: I stamp it.", "t1-r1-c1 stamp pending", "t1-r1-c1 in_progress", "t1-r1-c1 completed"}
		if diff := cmp.Diff(append(slices.Clone(shown), "agent: It is stamped.", "user: Thanks.", "agent: You said Thanks."), ann.lines()); diff != "" {
			t.Errorf("ann: %s", diff)
		}
		if diff := cmp.Diff(slices.Concat([]string{"user: Stamp a."}, shown, []string{"agent: It is stamped.You said Thanks."}), bob.lines()); diff != "" {
			t.Errorf("bob: %s", diff)
		}
	}, turnlogtest.Tools(stamp(t)))
}
