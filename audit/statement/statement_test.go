package statement_test

import (
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// differ checks that no two texts are equal.
func differ(t *testing.T, texts ...string) {
	t.Helper()
	for i, text := range texts {
		if j := slices.Index(texts, text); j != i {
			t.Errorf("texts %d and %d are both %q", j, i, text)
		}
	}
}

func TestEveryFieldOfAStatementCounts(t *testing.T) {
	t.Parallel()
	hash := events.HashOf([]byte("a"))
	entry := func(cell string, s content.SessionID, seq uint64, h events.Hash) string {
		return string(statement.Entry(cell, s, seq, h))
	}
	differ(t, entry("c", "s", 1, hash), entry("d", "s", 1, hash), entry("c", "t", 1, hash), entry("c", "s", 2, hash), entry("c", "s", 1, events.Hash{}))

	call := statement.Call{Session: "s", Call: "c1", Place: "t1-r1-c1", Attempt: 1, Tool: "echo", Input: "d"}
	texts := []string{string(statement.Result("c", call, 1, "r")), string(statement.Result("d", call, 1, "r")), string(statement.Result("c", call, 1, "q")), string(statement.Result("c", call, 2, "r"))}
	for _, change := range []func(*statement.Call){
		func(c *statement.Call) { c.Session = "t" }, func(c *statement.Call) { c.Call = "c2" }, func(c *statement.Call) { c.Place = "t1-r1-c2" },
		func(c *statement.Call) { c.Attempt = 2 }, func(c *statement.Call) { c.Tool = "rm" }, func(c *statement.Call) { c.Input = "e" },
	} {
		other := call
		change(&other)
		texts = append(texts, string(statement.Result("c", other, 1, "r")))
	}
	differ(t, texts...)
}

func TestADecisionIsAboutWhatWasShown(t *testing.T) {
	t.Parallel()
	asked := events.Approval{ID: "g1", CallID: "c1", Tool: "rm", Digest: "d", RequestKind: "tool.call", Scope: "x", Reason: content.EscalatedRisk, Summary: "remove"}
	shown := []string{statement.Shown(asked)}
	for _, change := range []func(*events.Approval){
		func(a *events.Approval) { a.ID = "g2" }, func(a *events.Approval) { a.CallID = "c2" }, func(a *events.Approval) { a.Tool = "ls" },
		func(a *events.Approval) { a.Input = []byte(`{"path":"/"}`) }, func(a *events.Approval) { a.RequestKind = "path" }, func(a *events.Approval) { a.Scope = "y" },
		func(a *events.Approval) { a.Reason = "other" }, func(a *events.Approval) { a.Summary = "list" },
		func(a *events.Approval) { a.Metadata = content.Metadata{}.With("k", 1) }, func(a *events.Approval) { a.ExpiresAt = 1 },
	} {
		other := asked
		change(&other)
		shown = append(shown, statement.Shown(other))
	}
	differ(t, shown...)

	lie := asked
	lie.Digest = "e"
	if statement.Shown(lie) != shown[0] {
		t.Error("what is signed follows from the digest that a question names, not from the arguments that it shows")
	}
}

// Nothing of a command can be changed, added or left out, and it is sent once, to one session.
func TestACommandIsSignedAsAWhole(t *testing.T) {
	t.Parallel()
	hi := []content.Item{content.UserText("hi")}
	open := commands.OpenSession{Config: events.Config{Rules: []events.Rule{{Tool: "*", Action: events.RuleDeny}}}, Input: hi}
	allowed, told, fork := open, open, open
	allowed.Config.Rules = []events.Rule{{Tool: "*", Action: events.RuleAllow}}
	told.Transcript, fork.Resume = hi, true
	yes := commands.ResolveApproval{Approval: "g1", Call: "c1", Approve: true, Shown: "x"}
	patched, always, other := yes, yes, yes
	patched.Input, always.Always, other.Call = json.RawMessage(`{}`), true, "c2"
	text := func(change func(*commands.Envelope), c commands.Command) string {
		e := commands.Envelope{ID: "1", Session: "s", At: 1, Command: c}
		if change != nil {
			change(&e)
		}
		return string(statement.Command("c", e))
	}
	texts := []string{
		text(func(e *commands.Envelope) { e.ID = "2" }, open), text(func(e *commands.Envelope) { e.Session = "t" }, open),
		text(func(e *commands.Envelope) { e.At = 2 }, open), string(statement.Command("d", commands.Envelope{ID: "1", Session: "s", At: 1, Command: open})),
	}
	for _, c := range []commands.Command{
		open, allowed, told, fork, yes, patched, always, other,
		commands.SubmitInput{Items: hi},
		commands.SubmitInput{Items: hi, OnBusy: events.Queue},
		commands.SubmitInput{Items: append(hi, hi...)},
		commands.StartTask{Spec: events.TaskSpec{Goal: "hi"}},
		commands.StartTask{Spec: events.TaskSpec{Goal: "hi", Verifier: []string{"true"}}},
		commands.StartTask{Spec: events.TaskSpec{Goal: "hi"}, Files: []content.Part{content.TextPart("x")}},
		commands.Cancel{Scope: "turn"},
		commands.Cancel{Scope: "session"},
		commands.AllowTools{Tools: []string{"fs_*"}},
		commands.AllowTools{Tools: []string{"*"}},
		commands.Close{},
		commands.Close{Reason: "x"},
	} {
		texts = append(texts, text(nil, c))
	}
	differ(t, texts...)
}

// A driver may end what a sub-agent does for a call. It never approves, and never signs for a client.
func TestWhoMaySignACommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		c    commands.Command
		want []keys.Role
	}{
		{commands.OpenSession{}, []keys.Role{keys.Client}},
		{commands.SubmitInput{}, []keys.Role{keys.Client}},
		{commands.Cancel{}, []keys.Role{keys.Client, keys.Driver}},
		{commands.ResolveApproval{Approve: true}, []keys.Role{keys.Approver}},
		{commands.ResolveApproval{Input: json.RawMessage(`{}`)}, []keys.Role{keys.Approver}},
		{commands.ResolveApproval{}, []keys.Role{keys.Approver, keys.Driver}},
		{commands.AllowTools{}, []keys.Role{keys.Approver}},
		{commands.SettleDeadLetter{}, []keys.Role{keys.Approver}},
		{commands.ReportVerify{}, []keys.Role{keys.Client}},
		{commands.ReportQuestion{}, []keys.Role{keys.Worker}},
	} {
		if got := statement.Roles(tt.c); !slices.Equal(got, tt.want) {
			t.Errorf("%s may be signed by %v, want %v", commands.NameOf(tt.c), got, tt.want)
		}
	}
}

func TestWhatTheJournalSetsIsNotSigned(t *testing.T) {
	t.Parallel()
	it := content.UserText("hi")
	other := it
	other.ID, other.CreatedAt, other.Metadata = "item-1", 7, content.Metadata{}.With(content.MetaInterrupted, true)
	if statement.Items([]content.Item{it}) != statement.Items([]content.Item{other}) {
		t.Error("the digest of input depends on what the journal sets")
	}
	differ(t, statement.Items([]content.Item{it}), statement.Items([]content.Item{content.UserText("ho")}), statement.Items([]content.Item{it, it}), statement.Items(nil),
		statement.Items([]content.Item{{Kind: it.Kind, Parts: it.Parts, Metadata: content.Metadata{}.With("k", 1)}}))

	r := content.NewResult("c1", "echo", content.StatusOK, "out")
	renamed := r
	renamed.CallID, renamed.Name = "c2", "cat"
	if statement.ResultDigest(r) != statement.ResultDigest(renamed) {
		t.Error("the digest of a result depends on the names of its call, which the statement has")
	}
	differ(t, statement.ResultDigest(r), statement.ResultDigest(content.NewResult("c1", "echo", content.StatusError, "out")),
		statement.ResultDigest(content.NewResult("c1", "echo", content.StatusOK, "other")))
}

// BenchmarkEntry prints what a signature adds to an append, and how many times as much that is as the signature alone: both
// are made by turns.
func BenchmarkEntry(b *testing.B) {
	k, err := keys.New()
	if err != nil {
		b.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	hash := events.HashOf([]byte("a"))
	text := statement.Entry("turnlog", "01KB0000000000000000000000", 1234, hash)
	var signed, alone time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		_ = k.Sign(statement.Entry("turnlog", "01KB0000000000000000000000", 1234, hash)).String()
		middle := time.Now()
		_ = ed25519.Sign(private, text)
		signed, alone = signed+middle.Sub(start), alone+time.Since(middle)
	}
	b.ReportMetric(float64(signed.Nanoseconds())/float64(b.N), "ns/op") // without the signature alone
	b.ReportMetric(float64(signed)/float64(alone), "x-floor")
}
