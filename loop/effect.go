package loop

import (
	"encoding/json"
	"strconv"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Effect is work outside the core that the session owes. The interface is sealed: only structs of this package
// implement it. An effect's identity is computed from its place, so a host recognizes an effect that it already
// performs.
//
//sumtype:decl
type Effect interface {
	// Identity is the same for the same effect of the same session, on any host.
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
	Routes        []events.RouteRule // for the calls of the reply
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
	Hooks bool // the report must include the PreToolExecution hooks of the first call that may run
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
	Attempt int // the attempt that may still run
	Reason  string
	Held    *Call // set if the attempt does not run but waited for an approval
}

// RunHooks owes the decision of the hooks of one point.
type RunHooks struct {
	Turn     content.TurnID
	Round    int
	Point    string
	Call     content.CallID
	N        int   // ContextCompaction: which of the round's mutations it follows
	Old, New int64 // ContextCompaction: tokens before and after
}

// RunMutator owes one run of a mutator.
type RunMutator struct {
	Turn    content.TurnID
	Round   int
	Mutator string
	Point   string
	Stop    bool // the turn is cancelled: the mutator must end and report its usage
}

// ArmTimer owes a report at a time.
type ArmTimer struct {
	Kind string
	ID   string
	At   content.Time
}

// Recall owes the notes that may help with a task.
type Recall struct {
	Task string
	Goal string
}

// Verify owes a run of a task's verifier.
type Verify struct {
	Task    string
	Attempt int
	Command []string // of the verifier; empty: a function that the host knows by the task
}

// StopVerify owes the end of a running verifier.
type StopVerify struct {
	Task    string
	Attempt int
}

// StoreMemory owes a note of a task's outcome.
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

// Identity returns model/turn/round/attempt.
func (e CallModel) Identity() string { return atAttempt("model/", e.ModelCall) }

// Identity returns stop/model/turn/round/attempt.
func (e StopModel) Identity() string { return atAttempt("stop/model/", e.ModelCall) }

// Identity returns preflight/turn/round.
func (e Preflight) Identity() string { return "preflight/" + atRound(e.Turn, e.Round) }

// Identity returns tool/place/attempt, then how often the attempt came back with a question.
func (e RunTool) Identity() string {
	id := "tool/" + string(e.Call.Place) + "/a" + strconv.Itoa(e.Call.Attempt)
	if e.Call.Suspended > 0 {
		id += "/g" + strconv.Itoa(e.Call.Suspended)
	}
	return id
}

// Identity returns stop/tool/place.
func (e StopTool) Identity() string { return "stop/tool/" + string(e.Place) }

// Identity returns hooks/turn/round/point/call/n.
func (e RunHooks) Identity() string {
	return "hooks/" + atRound(e.Turn, e.Round) + "/" + e.Point + "/" + string(e.Call) + "/" + strconv.Itoa(e.N)
}

// Identity returns mutator/turn/round/point/name.
func (e RunMutator) Identity() string {
	return "mutator/" + atRound(e.Turn, e.Round) + "/" + e.Point + "/" + e.Mutator
}

// Identity returns timer/kind/id/time.
func (e ArmTimer) Identity() string {
	return "timer/" + e.Kind + "/" + e.ID + "/" + strconv.FormatInt(int64(e.At), 10)
}

// Identity returns recall/task.
func (e Recall) Identity() string { return "recall/" + e.Task }

// Identity returns verify/task/attempt.
func (e Verify) Identity() string { return "verify/" + e.Task + "/a" + strconv.Itoa(e.Attempt) }

// Identity returns stop/verify/task/attempt.
func (e StopVerify) Identity() string {
	return "stop/verify/" + e.Task + "/a" + strconv.Itoa(e.Attempt)
}

// Identity returns memory/task.
func (e StoreMemory) Identity() string { return "memory/" + e.Task }

func atRound(turn content.TurnID, round int) string { return string(turn) + "/r" + strconv.Itoa(round) }

func atAttempt(kind string, m commands.ModelCall) string {
	return kind + string(m.Turn) + "/r" + strconv.Itoa(m.Round) + "/a" + strconv.Itoa(m.Attempt)
}
