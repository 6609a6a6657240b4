package statement_test

import (
	"encoding/json"
	"slices"
	"testing"

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
	texts := []string{string(statement.Result("c", call, "r")), string(statement.Result("d", call, "r")), string(statement.Result("c", call, "q"))}
	for _, change := range []func(*statement.Call){
		func(c *statement.Call) { c.Session = "t" }, func(c *statement.Call) { c.Call = "c2" }, func(c *statement.Call) { c.Place = "t1-r1-c2" },
		func(c *statement.Call) { c.Attempt = 2 }, func(c *statement.Call) { c.Tool = "rm" }, func(c *statement.Call) { c.Input = "e" },
	} {
		other := call
		change(&other)
		texts = append(texts, string(statement.Result("c", other, "r")))
	}
	differ(t, texts...)
}

func TestADecisionIsAboutWhatWasShown(t *testing.T) {
	t.Parallel()
	asked := events.Approval{ID: "g1", CallID: "c1", Tool: "rm", Digest: "d", RequestKind: "tool.call", Scope: "x", Reason: content.EscalatedRisk, Summary: "remove"}
	shown := []string{statement.Shown(asked)}
	for _, change := range []func(*events.Approval){
		func(a *events.Approval) { a.ID = "g2" }, func(a *events.Approval) { a.CallID = "c2" }, func(a *events.Approval) { a.Tool = "ls" },
		func(a *events.Approval) { a.Digest = "e" }, func(a *events.Approval) { a.RequestKind = "path" }, func(a *events.Approval) { a.Scope = "y" },
		func(a *events.Approval) { a.Reason = "other" }, func(a *events.Approval) { a.Summary = "list" },
	} {
		other := asked
		change(&other)
		shown = append(shown, statement.Shown(other))
	}
	differ(t, shown...)

	yes := commands.ResolveApproval{Approval: "g1", Call: "c1", Approve: true, Shown: shown[0]}
	said := []string{statement.Content(yes)}
	for _, change := range []func(*commands.ResolveApproval){
		func(c *commands.ResolveApproval) { c.Approval = "g2" }, func(c *commands.ResolveApproval) { c.Call = "c2" },
		func(c *commands.ResolveApproval) { c.Approve = false }, func(c *commands.ResolveApproval) { c.Always = true },
		func(c *commands.ResolveApproval) { c.Shown = "" }, func(c *commands.ResolveApproval) { c.Input = json.RawMessage(`{}`) },
		func(c *commands.ResolveApproval) { c.Reason = "fine" },
	} {
		other := yes
		change(&other)
		said = append(said, statement.Content(other))
	}
	differ(t, said...)
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

// BenchmarkEntry prints what a signature adds to an append.
func BenchmarkEntry(b *testing.B) {
	k, err := keys.New()
	if err != nil {
		b.Fatal(err)
	}
	hash := events.HashOf([]byte("a"))
	for b.Loop() {
		_ = k.Sign(statement.Entry("turnlog", "01KB0000000000000000000000", 1234, hash)).String()
	}
}
