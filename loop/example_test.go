package loop_test

import (
	"fmt"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// A turn by hand, with the reports of a host's effects written out.
func Example() {
	s := loop.New("s-1")
	send := func(id string, c commands.Command) {
		env := commands.Envelope{ID: id, Session: s.Session, Command: c}
		evs, err := loop.Decide(s, env)
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		entry := events.Entry{Session: s.Session, Seq: s.Seq + 1, Cause: id, Events: evs}
		s.Fold(entry) // a host appends the entry to the journal first
		fmt.Println(id, entry.Kinds())
		for _, e := range loop.Pending(s) {
			fmt.Println("  owed:", e.Identity())
		}
	}
	call := content.ToolCall{ID: "c1", Name: "fs_list", Input: []byte(`{"path":"."}`)}
	attempt := commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}
	listing := commands.ReportResult{Place: "t1-r1-c1", Attempt: 1}
	listing.Outcome.Result = content.NewResult("c1", "fs_list", content.StatusOK, "go.mod")

	send("claim", commands.Claim{Node: "n1"})
	send("open", commands.OpenSession{})
	send("submit", commands.SubmitInput{Items: []content.Item{content.UserText("What is here?")}})
	send("reply", commands.ReportReply{ModelCall: attempt, Items: []content.Item{content.NewItem(content.Assistant, content.CallPart(call))}})
	send("preflight", commands.ReportPreflight{Turn: "turn-1", Round: 1, Checks: []commands.Check{{Place: "t1-r1-c1"}}})
	send("result", listing)
	attempt.Round = 2
	send("reply-2", commands.ReportReply{ModelCall: attempt, Items: []content.Item{content.AssistantText("A Go module.")}})
	send("cancel", commands.Cancel{Scope: commands.ScopeTurn})
	fmt.Println(loop.Waiting(s), s.Last.FinishReason, len(s.Transcript))

	// Output:
	// claim [driver_claimed]
	// open [run_started]
	// submit [input_queued input_accepted turn_started round_started model_call_started]
	//   owed: model/turn-1/r1/a1
	// reply [reply_recorded usage_updated tool_call_requested]
	//   owed: preflight/turn-1/r1
	// preflight [tool_dispatched]
	//   owed: tool/t1-r1-c1/a1
	// result [tool_result_received round_finished round_started model_call_started]
	//   owed: model/turn-1/r2/a1
	// reply-2 [reply_recorded usage_updated turn_finished]
	// refused: nothing_to_cancel: no turn is open
	// input completed 4
}
