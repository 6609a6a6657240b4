package loop

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// State is everything a session is, folded from its journal. It has one owner,
// which alone calls Fold; others read a State that is no longer folded.
type State struct {
	Session content.SessionID
	Seq     uint64 // of the last entry
	At      content.Time
	Epoch   uint64
	Cursors []events.Cursor
	Causes  []string // of the last entries, oldest first

	Opened     bool
	Closed     bool
	Deleted    *events.Deletion // nil: it was not; else it is closed and holds nothing
	Stepped    bool
	Config     events.Config
	Metadata   content.Metadata
	Parent     content.SessionID
	Catalog    events.Catalog
	Transcript []content.Item // append-only between rewrites: forks share it
	Appended   int            // the number of the last item that got its id here

	Queue         []Queued // input that is not yet in the transcript
	Notices       []Notice
	NoticesFirst  bool // the last merge took input and left notices waiting
	CacheOverride *content.CacheRequest

	Turns      int   // turns ever started
	Turn       *Turn // nil: idle
	Last       *Ended
	Ends       []Ended    // the turns that ended in the last entry; Last is the last of them
	After      Mutating   // the mutators of AfterTurnEnded
	Background []Call     // answered calls whose real outcome may still come
	Beside     []Approval // gates of calls in the background or once more under way: they hold no round and outlive turns
	Stops      []Call     // answered calls that may still run and must not; until the end of the next turn
	CallIDs    CallSet
	Grants     []Grant // what was approved for always, in order
	Allowed    []Allowance
	Used       Counters
	Task       *Task // the open task
	Tickets    bool  // calls that are dispatched now have tickets
}

// Queued is one submission that waits.
type Queued struct {
	Items   []content.Item
	Origin  events.Origin
	OnBusy  events.OnBusy
	Options *events.TurnOptions
	Task    *events.TaskSpec

	TaskName, Baseline string
}

// Notice is a notification that waits.
type Notice struct {
	Item  content.Item
	Quiet bool // does not start a turn by itself
}

// Counters count against limits.
type Counters struct {
	Rounds    int64
	Requests  int64
	ToolCalls int64
	Worked    content.Duration // by the turns that are over
	Usage     content.Usage
}

func (c *Counters) add(ev events.UsageUpdated) {
	c.Usage = c.Usage.Add(ev.Usage)
	c.Requests += ev.Requests
	c.ToolCalls += ev.ToolCalls
}

// Stage is where a turn stands between two facts.
type Stage string

// The stages of a turn.
const (
	StageTop      Stage = "top"      // before a round
	StageRound    Stage = "round"    // a round is open, its model not yet called
	StageModel    Stage = "model"    // the model is called, or will be again
	StageReplied  Stage = "replied"  // the reply is recorded; its calls are gated and run
	StageBoundary Stage = "boundary" // the round is complete
	StageVerify   Stage = "verify"   // the work is done: a task's gate, then its report
)

// Turn is the open turn.
type Turn struct {
	ID      content.TurnID
	N       int
	Trigger events.Origin
	Options *events.TurnOptions
	Started content.Time
	Waited  content.Duration // for people and at yields
	Since   content.Time     // since when it waits now; zero: it does not
	Stage   Stage
	Stale   int // of State.Stops: those from before the turn
	Used    Counters
	Items   []content.Item // all Assistant items of the turn
	Repairs int            // rounds that correct an answer
	Cancel  *events.CancelRequested
	Limit   *events.LimitReached

	// The round.
	Round   int
	Attempt int // of the model call
	Calling bool
	RetryAt content.Time     // the next attempt's time; zero: none
	Waits   content.Duration // what the provider of the last failed attempt asked for
	Lost    int              // model attempts that died with their host
	Cache   *content.CacheRequest
	Reply   content.FinishReason
	Invalid string // why the reply does not fit the session's schema
	Replied int    // items of the reply
	Calls   []Call
	Checked bool // preflight of the round is known
	Held    bool // stepped: the last approval was just decided (W2)
	Hooks   []Decided
	Mut     Mutating

	Approvals []Approval
}

// Decided names a hook point of the round that is decided.
type Decided struct {
	Point string
	Call  content.CallID
}

// Mutating is how far the mutators of a point are.
type Mutating struct {
	Point     string
	Ran       []string // by name: those that are done, then the one that is open
	Open      bool
	Compacted int // dirty compactions whose hooks are not yet decided
	Old, New  int64
}

// current is the mutator that runs, or ran last.
func (m Mutating) current() string { return m.Ran[len(m.Ran)-1] }

// Approval is a gate of the turn.
type Approval struct {
	events.Approval
	Asked   content.Time
	Outcome events.Outcome // empty: undecided
	By      string
	Allowed bool // by an allowance, which answers for the session's rules alone
}

// Call is a tool call of the round, or one in the background.
type Call struct {
	content.ToolCall
	Turn    content.TurnID
	Round   int
	Routing content.Routing
	Rules   [][]events.Rule // of its turn

	Input      []byte            // the effective input, if patched
	Digest     string            // of the effective input
	Attempt    int               // zero: never dispatched
	Dispatched bool              // an attempt is out
	Lost       int               // attempts whose worker was lost
	Gates      int               // approvals that were asked for
	Gated      int               // times that an attempt came back for an approval
	Approved   []content.GateKey // the questions that were answered with yes: what whoever runs it need not ask
	Asked      []content.GateKey // what the attempt that is held came back with
	Deadline   content.Time
	DetachAt   content.Time

	Status      content.Status // empty: no result yet
	Result      *content.ToolResult
	Placeholder string // it goes on in the background
	Placed      bool   // its answer is in the transcript
	Late        bool   // its late outcome arrived
	Ticketed    bool   // reports about its last dispatch come with a ticket
	Letter      Letter // its workers were lost, and its outcome with them
}

// Letter is how a dead letter stands: a call whose workers were lost.
type Letter string

// How a dead letter stands.
const (
	NoLetter      Letter = ""
	LetterDead    Letter = "dead"    // nobody has decided what is to become of it
	LetterRetried Letter = "again"   // a person has it run once more
	LetterDropped Letter = "dropped" // nobody will run it again
)

// Answered reports whether the round need not wait for the call any more.
func (c Call) Answered() bool { return c.Status != "" || c.Placeholder != "" }

// Running reports whether an attempt is out whose outcome still counts.
func (c Call) Running() bool { return c.Dispatched && (c.Status == "" || c.Retried()) }

// InBackground reports whether the call is in the background, or under way once more: its
// outcome is still to come, and no round waits for it.
func (c Call) InBackground() bool { return c.Placeholder != "" && c.Status == "" || c.Retried() }

// beside reports whether the call's gates are beside the turns.
func (c Call) beside() bool { return c.Placeholder != "" || c.Retried() }

// EffectiveInput is what the tool gets.
func (c Call) EffectiveInput() []byte {
	if c.Input != nil {
		return c.Input
	}
	return c.ToolCall.Input
}

// Ended is what is kept of the last turn.
type Ended struct {
	Turn         content.TurnID
	N            int
	FinishReason content.FinishReason
	Items        []content.Item
	Usage        content.Usage
	Rounds       int
	Metadata     content.Metadata
	Error        *events.RunFailed
	Failure      Failure // beside Error
	Limit        *events.LimitReached
	Task         *events.TaskFinished
	Verifier     string // a task's: what its gate said last
	Calls        int
}

// Failure says where a turn failed: which call, which mutator, or how often the model
// was called.
type Failure struct {
	Call       content.CallID
	Tool, Code string // the tool and its own code
	Mutator    string
	Point      string
	Attempts   int
	RetryAfter content.Duration // what the provider asked for last
}

// Task is an open task with a gate.
type Task struct {
	Name     string
	Spec     events.TaskSpec
	Recalled bool
	Attempts int  // verifications
	Running  bool // a verification is
	Verify   string
	Output   string // what the gate said last
	Stored   bool
	Changed  []string
}

// CausesKept bounds how many entries back a redelivered command is recognised without
// its cursor. One that is sent again later is another command with the same id.
const CausesKept = 64

// New returns the state of a session without a journal.
func New(id content.SessionID) *State { return &State{Session: id} }

// Fork returns a copy to decide on. It shares what is only ever appended to with
// s, so it must be thrown away before s is folded further.
func (s *State) Fork() State {
	f := *s
	f.Cursors = slices.Clone(s.Cursors)
	f.Queue = slices.Clip(s.Queue) // it may be long, and is never changed in place
	f.Notices = slices.Clone(s.Notices)
	f.Background = slices.Clone(s.Background)
	f.Stops = slices.Clone(s.Stops)
	f.Beside = slices.Clone(s.Beside)
	if s.Turn != nil {
		t := *s.Turn
		t.Calls = slices.Clone(t.Calls)
		t.Approvals = slices.Clone(t.Approvals)
		t.Hooks = slices.Clone(t.Hooks)
		f.Turn = &t
	}
	if s.Task != nil {
		t := *s.Task
		t.Changed = slices.Clone(t.Changed)
		f.Task = &t
	}
	return f
}

// Cursor returns up to where the lane's commands are handled.
func (s *State) Cursor(l events.Lane) uint64 {
	for _, c := range s.Cursors {
		if c.Lane == l {
			return c.Seq
		}
	}
	return 0
}

// Handled reports whether the cause is among the last that the session reacted to.
func (s *State) Handled(cause string) bool { return slices.Contains(s.Causes, cause) }

// Call finds an open or background call by id.
func (s *State) Call(id content.CallID) (*Call, bool) {
	return s.findCall(func(c *Call) bool { return c.ID == id })
}

// CallAt finds an open or background call by its place.
func (s *State) CallAt(p content.Place) (*Call, bool) {
	return s.findCall(func(c *Call) bool { return c.Place == p })
}

// inRound reports whether the call belongs to the open round.
func (s *State) inRound(id content.CallID) bool {
	return s.Turn != nil && slices.ContainsFunc(s.Turn.Calls, func(c Call) bool { return c.ID == id })
}

func (s *State) findCall(match func(*Call) bool) (*Call, bool) {
	if s.Turn != nil {
		for i := range s.Turn.Calls {
			if match(&s.Turn.Calls[i]) {
				return &s.Turn.Calls[i], true
			}
		}
	}
	for i := range s.Background {
		if match(&s.Background[i]) {
			return &s.Background[i], true
		}
	}
	return nil, false
}

// PendingApprovals lists the approvals that wait for a person: those of calls in the
// background, then the others by call and gate.
func (s *State) PendingApprovals() []events.Approval {
	var out []events.Approval
	for _, a := range s.Beside {
		if a.Outcome == "" {
			out = append(out, a.Approval)
		}
	}
	if s.Turn == nil {
		return out
	}
	for _, c := range s.Turn.Calls {
		for _, a := range s.Turn.Approvals {
			if a.Outcome == "" && a.CallID == c.ID {
				out = append(out, a.Approval)
			}
		}
	}
	return out
}

// approvals lists the gates of the turn and those beside it.
func (s *State) approvals() []Approval {
	if s.Turn == nil {
		return s.Beside
	}
	return slices.Concat(s.Beside, s.Turn.Approvals)
}

// undecided reports whether a gate of a call, or any, waits for a person.
func (s *State) undecided(c content.CallID) bool {
	return s.Turn != nil && s.Turn.undecided(c) || undecided(s.Beside, c)
}

func undecided(all []Approval, c content.CallID) bool {
	return slices.ContainsFunc(all, func(a Approval) bool { return a.Outcome == "" && (c == "" || a.CallID == c) })
}

// asksBeside reports whether the call is one in the background.
func (s *State) asksBeside(id content.CallID) bool {
	c, ok := s.Call(id)
	return ok && c.beside()
}

func (t *Turn) undecided(c content.CallID) bool { return undecided(t.Approvals, c) }
