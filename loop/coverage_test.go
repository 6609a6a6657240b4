package loop_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/loop"
)

// Every command, event, effect, refusal, status and finish reason appears in a script.
func TestScriptsCoverTheVocabulary(t *testing.T) {
	t.Parallel()
	text := scripts(t)
	has := func(what, pattern string) {
		t.Helper()
		if !regexp.MustCompile(`(?m)` + pattern).MatchString(text) {
			t.Errorf("no script in testdata shows %s", what)
		}
	}
	for _, k := range events.Kinds() {
		if events.Journaled(k) {
			has("the event "+string(k), `^`+string(k)+`( |$)`)
		}
	}
	for verb := range strings.FieldsSeq("claim open submit continue approve deny patch allow retry drop cancel detach cache switch task close park reply fail" +
		" stopped result lost preflight gate hooks mutate recall verify memory timer") {
		has("the command "+verb, `^`+verb+`( |$)`)
	}
	for id := range strings.FieldsSeq("model stop/model preflight tool stop/tool hooks mutator recall verify stop/verify memory" +
		" timer/retry timer/approval timer/detach timer/deadline timer/wall_clock") {
		has("the effect "+id, `^pending: (.*, )?`+id+`/`)
	}
	for _, w := range []commands.Wait{commands.WaitWorking, commands.WaitApproval, commands.WaitYield, commands.WaitReady, commands.WaitInput} {
		has("the wait "+string(w), `^waiting: `+string(w)+`$`)
	}
	for _, r := range refusals() {
		has("the refusal "+r, `^refused: `+r+`(:|$)`)
	}
	for _, s := range statuses() {
		has("the status "+string(s), `^tool_result_received .*result=\S+ \S+ `+string(s)+` `)
	}
	for _, r := range finishReasons() {
		has("the end "+string(r), `^turn_finished .*finish_reason=`+string(r)+`( |$)`)
	}
}

func scripts(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// refusals are those of the core, except too_large and queue_full, whose scripts would be long.
func refusals() []string {
	return []string{
		commands.ReasonSessionExists, commands.ReasonNoSession, commands.ReasonBadItem, commands.ReasonEmptyInput, commands.ReasonBusy, commands.ReasonClosed,
		commands.ReasonNoApproval, commands.ReasonSeveralPending, commands.ReasonUnknownCall, commands.ReasonAlreadyDecided, commands.ReasonExpired,
		commands.ReasonInvalidInput, commands.ReasonNothingToCancel, commands.ReasonAlreadyFinished, commands.ReasonNotRunning,
		commands.ReasonAlreadyBackground, commands.ReasonInvalidCache, commands.ReasonBadTranscript,
		commands.ReasonDeleted, commands.ReasonNotDead, commands.ReasonMayRepeat, commands.ReasonHookTerminated,
	}
}

func statuses() []content.Status {
	return []content.Status{
		content.StatusOK, content.StatusError, content.StatusDenied, content.StatusExpired, content.StatusSkipped, content.StatusCancelled,
		content.StatusLimit, content.StatusTerminated, content.StatusNotExecuted, content.StatusUnknown,
	}
}

func finishReasons() []content.FinishReason {
	return []content.FinishReason{
		content.Completed, content.MaxTokens, content.Blocked, content.Cancelled, content.Limit, content.Terminated, content.Errored, content.Other,
	}
}

// Of two effects with the same identity, a host would perform one.
func TestIdentitiesAreUnique(t *testing.T) {
	t.Parallel()
	call := func(p content.Place, attempt int) loop.Call {
		return loop.Call{ToolCall: content.ToolCall{Place: p}, Attempt: attempt}
	}
	m := func(turn content.TurnID, round, attempt int) commands.ModelCall {
		return commands.ModelCall{Turn: turn, Round: round, Attempt: attempt}
	}
	seen := map[string]loop.Effect{}
	for _, e := range []loop.Effect{
		loop.CallModel{ModelCall: m("turn-1", 1, 1)},
		loop.CallModel{ModelCall: m("turn-1", 1, 2)},
		loop.CallModel{ModelCall: m("turn-1", 11, 1)},
		loop.CallModel{ModelCall: m("turn-11", 1, 1)},
		loop.StopModel{ModelCall: m("turn-1", 1, 1)},
		loop.Preflight{Turn: "turn-1", Round: 1},
		loop.Preflight{Turn: "turn-1", Round: 2},
		loop.RunTool{Call: call("t1-r1-c1", 1)},
		loop.RunTool{Call: call("t1-r1-c1", 2)},
		loop.RunTool{Call: call("t1-r1-c11", 1)},
		loop.StopTool{Place: "t1-r1-c1"},
		loop.StopTool{Place: "t1-r1-c2"},
		loop.RunHooks{Turn: "turn-1", Round: 1, Point: "p"},
		loop.RunHooks{Turn: "turn-1", Round: 1, Point: "p", Call: "c"},
		loop.RunHooks{Turn: "turn-1", Round: 1, Point: "p", N: 1},
		loop.RunHooks{Turn: "turn-1", Round: 1, Point: "q"},
		loop.RunMutator{Turn: "turn-1", Round: 1, Mutator: "m", Point: "p"},
		loop.RunMutator{Turn: "turn-1", Round: 1, Mutator: "m", Point: "q"},
		loop.RunMutator{Turn: "turn-1", Round: 1, Mutator: "n", Point: "p"},
		loop.RunMutator{Turn: "turn-1", Round: 2, Mutator: "m", Point: "p"},
		loop.ArmTimer{Kind: "k", ID: "i", At: 1},
		loop.ArmTimer{Kind: "k", ID: "i", At: 2},
		loop.ArmTimer{Kind: "k", ID: "j", At: 1},
		loop.Recall{Task: "t"},
		loop.Verify{Task: "t", Attempt: 1},
		loop.Verify{Task: "t", Attempt: 2},
		loop.StopVerify{Task: "t", Attempt: 1},
		loop.StoreMemory{Task: "t"},
	} {
		id := e.Identity()
		if other, taken := seen[id]; taken {
			t.Errorf("%s is %s and %s", id, looptest.Render(other), looptest.Render(e))
		}
		seen[id] = e
	}
}
