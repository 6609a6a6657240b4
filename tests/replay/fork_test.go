package replay

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// TestAForkOfEveryEntryContinues forks each frozen journal after each of its entries. The fork begins with the transcript
// of that entry, continues to the end of its turns, answers another input, and keeps every invariant.
func TestAForkOfEveryEntryContinues(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d journals, %v", len(files), err)
	}
	forks, rounds := 0, 0
	for _, file := range files {
		exported, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		records := load(t, exported)
		for _, rec := range records {
			origin, err := engine.FoldTo(rec.Entry.Session, journal.All(records), rec.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if !origin.State.Opened || origin.State.Deleted != nil {
				continue
			}
			from := events.EntryRef{Session: rec.Entry.Session, Seq: rec.Seq, Hash: rec.Hash}
			open, err := session.Fork(commands.OpenSession{From: from.String(), Input: session.ForkInput(origin.State)}, origin.State, origin.Head)
			if err != nil {
				t.Fatalf("%s: %v", from.Place(), err)
			}
			forks++
			if open.Resume {
				rounds++
			}
			t.Run(from.Place(), func(t *testing.T) { continueFork(t, open, origin.State) })
		}
	}
	if forks < 100 || rounds < 10 {
		t.Errorf("%d forks, %d in the middle of a round", forks, rounds)
	}
}

func continueFork(t *testing.T, open commands.OpenSession, origin *loop.State) {
	t.Helper()
	s := looptest.NewSession("fork")
	s.Terse = true
	s.At = origin.At
	do := func(c commands.Command) {
		t.Helper()
		env := s.Envelope(c)
		if o, ok := c.(commands.OpenSession); ok && o.Resume {
			_, reply, _ := content.OpenRound(o.Transcript)
			env.Routing = make([]content.Routing, content.CountCalls(reply))
		}
		if _, err := s.Do(t, env); err != nil {
			t.Fatalf("%s: %v", commands.NameOf(c), err)
		}
	}
	do(commands.Claim{Node: "n"})
	do(open)
	settle(t, s, do)
	want, got := origin.Transcript, s.Live.Transcript
	own := cmp.Options{ // of the fork: IDs and times
		cmpopts.IgnoreFields(content.Item{}, "ID", "CreatedAt"),
		cmpopts.IgnoreFields(content.ToolCall{}, "ID", "ProviderID", "Place"),
		cmpopts.IgnoreFields(content.ToolResult{}, "CallID"),
	}
	if len(got) < len(want) || !cmp.Equal(got[:len(want)], want, own) {
		t.Errorf("the fork's transcript (-origin +fork):\n%s", cmp.Diff(want, got, own))
	}
	do(commands.SubmitInput{Items: []content.Item{content.UserText("and now?")}})
	settle(t, s, do)
	if s.Live.Turns == 0 || s.Live.Turn != nil {
		t.Errorf("after another input the fork waits for %s in turn %d", loop.Waiting(s.Live), s.Live.Turns)
	}
	s.Finish(t)
}

// settle performs what the session owes, with replies and results that say little, and approves what it asks.
func settle(t *testing.T, s *looptest.Session, do func(commands.Command)) {
	t.Helper()
	for range 200 {
		if pending := s.Live.PendingApprovals(); len(pending) > 0 {
			do(commands.ResolveApproval{Approval: pending[0].ID, Call: pending[0].CallID, Approve: true})
			continue
		}
		reports := 0
		for _, e := range loop.Pending(s.Live) {
			if c := reportOf(e); c != nil {
				do(c)
				reports++
				break // what is owed has changed
			}
		}
		if reports == 0 {
			return
		}
	}
	t.Fatalf("the session does not come to rest: it waits for %s", loop.Waiting(s.Live))
}

// reportOf returns the report about an effect; nil for those that only time ends.
func reportOf(e loop.Effect) commands.Command {
	switch e := e.(type) { //nolint:gochecksumtype // a fork without hooks, mutators and tasks owes no others
	case loop.CallModel:
		return commands.ReportReply{ModelCall: e.ModelCall, Items: []content.Item{content.NewItem(content.Assistant, content.TextPart("done"))}}
	case loop.Preflight:
		report := commands.ReportPreflight{Turn: e.Turn, Round: e.Round}
		for _, c := range e.Calls {
			question := commands.Question{RequestKind: events.QuestionCall, Reason: content.PolicyRequiresConfirmation}
			report.Checks = append(report.Checks, commands.Check{Place: c.Place, Questions: []commands.Question{question}})
		}
		return report
	case loop.RunTool:
		result := content.NewResult(e.Call.ID, e.Call.Name, content.StatusOK, "ran")
		return commands.ReportResult{Place: e.Call.Place, Attempt: e.Call.Attempt, Outcome: tool.Result{Result: result}}
	}
	return nil
}
