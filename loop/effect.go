package loop

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Effect is something the session owes to the world. It is sealed: the kinds are
// the structs of this package. Identity is computed from the effect's place, so
// that doing it twice is recognisable.
//
//sumtype:decl
type Effect interface {
	Identity() string
	effect()
}

// CallModel owes one attempt at a model call.
type CallModel struct {
	commands.ModelCall
	TranscriptLen int
	Cache         *content.CacheRequest
	Schema        json.RawMessage    // of the answer; empty: free text
	Rules         Rules              // for the calls of the reply
	Routes        []events.RouteRule // likewise
}

// StopModel owes the end of a running model call.
type StopModel struct {
	commands.ModelCall
	Reason string
}

// Preflight owes the checks of a round's calls: lookup, schema, permissions.
type Preflight struct {
	Turn  content.TurnID
	Round int
	Calls []Call
	Rules Rules
	Hooks bool // the answer has to carry the PreToolExecution hooks of the first call that may run
}

// RunTool owes one attempt at a tool call.
type RunTool struct {
	Session content.SessionID
	Call    Call
}

// StopTool owes the end of a tool call that may still run.
type StopTool struct {
	Call    content.CallID
	Place   content.Place
	Queue   string
	Attempt int // the one that may run
	Reason  string
	Held    *Call // it does not run: its attempt waited for an approval when it was answered
}

// RunHooks owes the answer of the hooks of one point.
type RunHooks struct {
	Turn     content.TurnID
	Round    int
	Point    string
	Call     content.CallID
	N        int   // ContextCompaction: which of the round's mutations it follows
	Old, New int64 // ContextCompaction
}

// RunMutator owes one run of a mutator.
type RunMutator struct {
	Turn    content.TurnID
	Round   int
	Mutator string
	Point   string
	Stop    bool // it has to end: the turn is cancelled, and waits for what it cost
}

// ArmTimer owes a report at a time.
type ArmTimer struct {
	Kind string
	ID   string
	At   content.Time
}

// Recall owes what planning a task needs.
type Recall struct {
	Task string
	Goal string
}

// Verify owes a run of a task's gate.
type Verify struct {
	Task    string
	Attempt int
	Gate    []string // the command to run; empty: a function that the host knows by the task
}

// StopVerify owes the end of a running gate.
type StopVerify struct {
	Task    string
	Attempt int
}

// StoreMemory owes the memory of a task's summary.
type StoreMemory struct {
	Task    string
	Goal    string
	Summary string
}

func (CallModel) effect()   {}
func (StopModel) effect()   {}
func (Preflight) effect()   {}
func (RunTool) effect()     {}
func (StopTool) effect()    {}
func (RunHooks) effect()    {}
func (RunMutator) effect()  {}
func (ArmTimer) effect()    {}
func (Recall) effect()      {}
func (Verify) effect()      {}
func (StopVerify) effect()  {}
func (StoreMemory) effect() {}

// Identity is model/turn/round/attempt.
func (e CallModel) Identity() string {
	return identity("model", string(e.Turn), "r", e.Round, "a", e.Attempt)
}

// Identity is stop/model/turn/round/attempt.
func (e StopModel) Identity() string {
	return identity("stop/model", string(e.Turn), "r", e.Round, "a", e.Attempt)
}

// Identity is preflight/turn/round.
func (e Preflight) Identity() string { return identity("preflight", string(e.Turn), "r", e.Round) }

// Identity is tool/place/attempt, and how often the attempt came back for an
// approval.
func (e RunTool) Identity() string {
	if n := e.Call.Gated; n > 0 {
		return identity("tool", string(e.Call.Place), "a", e.Call.Attempt, "g", n)
	}
	return identity("tool", string(e.Call.Place), "a", e.Call.Attempt)
}

// Identity is stop/tool/place.
func (e StopTool) Identity() string { return "stop/tool/" + string(e.Place) }

// Identity is hooks/turn/round/point/call/n.
func (e RunHooks) Identity() string {
	return fmt.Sprintf("hooks/%s/r%d/%s/%s/%d", e.Turn, e.Round, e.Point, e.Call, e.N)
}

// Identity is mutator/turn/round/point/name.
func (e RunMutator) Identity() string {
	return fmt.Sprintf("mutator/%s/r%d/%s/%s", e.Turn, e.Round, e.Point, e.Mutator)
}

// Identity is timer/kind/id/time.
func (e ArmTimer) Identity() string { return fmt.Sprintf("timer/%s/%s/%d", e.Kind, e.ID, int64(e.At)) }

// Identity is recall/task.
func (e Recall) Identity() string { return "recall/" + e.Task }

// Identity is verify/task/attempt.
func (e Verify) Identity() string { return fmt.Sprintf("verify/%s/a%d", e.Task, e.Attempt) }

// Identity is stop/verify/task/attempt.
func (e StopVerify) Identity() string { return fmt.Sprintf("stop/verify/%s/a%d", e.Task, e.Attempt) }

// Identity is memory/task.
func (e StoreMemory) Identity() string { return "memory/" + e.Task }

// identity joins what an effect is, where, and the numbers of its place.
func identity(what, where string, numbers ...any) string {
	b := make([]byte, 0, len(what)+len(where)+8*len(numbers))
	b = append(append(append(b, what...), '/'), where...)
	for _, n := range numbers {
		switch n := n.(type) {
		case string:
			b = append(append(b, '/'), n...)
		case int:
			b = strconv.AppendInt(b, int64(n), 10)
		}
	}
	return string(b)
}
