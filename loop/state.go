package loop

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// State is the complete state of a session, folded from its journal. One owner calls Fold; others may read a State
// only while it is not being folded.
type State struct {
	Session content.SessionID
	Seq     uint64 // sequence of the last entry
	At      content.Time
	Epoch   uint64
	Cursors []events.Cursor
	Causes  []string        // causes of the last entries, oldest first
	Asks    content.CallSet // asks that caused earlier entries, see commands.Recall
	Signed  commands.Handled

	Opened     bool
	Closed     bool
	Deleted    *events.Deletion // nil: not deleted; otherwise the session is closed and empty
	Stepped    bool
	Config     events.Config
	Policy     events.Policy
	Metadata   content.Metadata
	Parent     content.SessionID
	From       string // the entry of another session that this one continues, as an events.EntryRef; "": none
	Catalog    events.Catalog
	Transcript []content.Item // append-only between rewrites, so forks share it
	Bytes      int64          // approximate size of the transcript
	Appended   int            // number of the last item that got its ID in this session
	Rewritten  int            // how often the transcript was replaced or changed, instead of growing

	Queue         []events.InputQueued // not yet in the transcript
	Notices       []Notice
	NoticesFirst  bool // the last merge took input and left notices pending, which now come first
	CacheOverride *content.CacheRequest

	Turns               int   // turns ever started
	Turn                *Turn // nil: idle
	Last                *Ended
	Ends                []Ended    // turns that ended in the last entry, up to Last
	After               Mutating   // the mutators that run after a turn
	Background          []Call     // answered calls whose real outcome may still arrive, and dead letters
	BackgroundApprovals []Approval // questions about calls in the background: they block no round and outlive turns
	Stops               []Call     // answered calls that may still run and must be stopped; kept until the next turn ends
	CallIDs             content.CallSet
	Grants              []Grant // lasting approvals, oldest first
	Allowed             []Allowance
	Used                events.Counters
	Task                *Task // nil: no task is open
	Tickets             bool  // calls dispatched from now on get tickets
}

// Notice is a pending notification.
type Notice struct {
	Item  content.Item
	Quiet bool // does not start a turn by itself
}

// Stage is how far a turn has come, as its last event says.
type Stage string

// The stages of a turn.
const (
	StageTop      Stage = "top"      // before a round
	StageRound    Stage = "round"    // a round is open, the model not yet called
	StageModel    Stage = "model"    // the model is being called, or will be again
	StageReplied  Stage = "replied"  // the reply is recorded; its calls are checked and run
	StageBoundary Stage = "boundary" // the round is complete
	StageVerify   Stage = "verify"   // the work is done: a task's verifier, then its notes
)

// Turn is the open turn.
type Turn struct {
	ID      content.TurnID
	N       int
	Trigger events.Origin
	Options *events.TurnOptions
	Started content.Time
	Waited  content.Duration // time spent waiting for people, and for Continue in a stepped session
	Since   content.Time     // start of the current wait; zero: the turn works
	Stage   Stage
	Stale   int // how many of State.Stops are older than the turn
	Used    events.Counters
	Items   []content.Item // all Assistant items of the turn
	Repairs int            // rounds spent correcting an answer
	Cancel  *events.CancelRequested
	Limit   *events.LimitReached

	// The round.
	Round      int
	Attempt    int // attempt of the model call
	Calling    bool
	RetryAt    content.Time     // time of the next attempt; zero: none is scheduled
	RetryUntil content.Time     // no attempt starts later; zero: the call has not failed yet
	Waits      content.Duration // what the provider asked for when the last attempt failed
	Lost       int              // model attempts that died with their host
	Cache      *content.CacheRequest
	Reply      content.FinishReason
	Invalid    string // why the reply violates the session's schema
	Replied    int    // number of items in the reply
	Calls      []Call
	ByID       content.Order // order of Calls by ID
	Checked    bool          // the round's preflight is done
	Held       bool          // the last question was just decided; a stepped session waits for Continue
	Hooks      []HookPoint
	Mut        Mutating
	Approvals  []Approval
	Undecided  content.Order // order of the pending Approvals by ID
}

// HookPoint is a point of a round at which hooks decide, and the call in question.
type HookPoint struct {
	Point string
	Call  content.CallID
}

// Mutating is the progress of the mutators of one point.
type Mutating struct {
	Point     string
	Ran       []string // names of those that ran, the open one last
	Open      bool
	Compacted int // compactions whose hooks have not decided yet
	Old, New  int64
}

// current is the mutator that runs, or ran last.
func (m Mutating) current() string { return m.Ran[len(m.Ran)-1] }

// at returns m if it is about the point. Otherwise no mutator of the point has run yet.
func (m Mutating) at(point string) Mutating {
	if m.Point != point {
		return Mutating{Point: point}
	}
	return m
}

// Approval is a question about a call, and its answer.
type Approval struct {
	events.Approval
	Asked   content.Time
	Outcome events.Outcome // empty: pending

	By, User string // who decided, see content.Sender
	Allowed  bool   // approved by an allowance, which answers only what the session's rules ask
}

// key names the approval's question.
func (a Approval) key() content.QuestionKey {
	return content.QuestionKey{Kind: a.RequestKind, Scope: a.Scope}
}

// Ended is a finished turn.
type Ended struct {
	Turn         content.TurnID
	N            int
	FinishReason content.FinishReason
	Items        []content.Item
	Usage        content.Usage
	Rounds       int
	Metadata     content.Metadata
	Error        *events.RunFailed
	Failure      Failure // details of Error
	Limit        *events.LimitReached
	Task         *events.TaskFinished
	Verifier     string // the last output of the task's verifier
	Calls        int
}

// Failure says where a turn failed: in which call, which mutator, or after how many attempts.
type Failure struct {
	Call       content.CallID
	Tool, Code string // the tool, and the error code that it returned
	Mutator    string
	Point      string
	Attempts   int
	RetryAfter content.Duration // what the provider asked for last
}

// Task is an open task.
type Task struct {
	Name     string
	Spec     events.TaskSpec
	Recalled bool
	Attempts int  // number of verifications
	Running  bool // a verification is running
	Verify   string
	Output   string // the last output of the verifier
	Stored   bool
	Changed  []string
}

// CausesKept is how many entries back a redelivered report is recognized without its cursor. A report that is sent
// again later is too late anyway. Asks are always recognized.
const CausesKept = 64

// New returns the state of a session without a journal.
func New(id content.SessionID) *State { return &State{Session: id} }

// Fork returns a copy to decide on or to read. Do not fold the copy after s was folded further.
func (s *State) Fork() State {
	f := *s
	f.Queue = slices.Clip(s.Queue) // may be long, and never changes in place
	f.Notices = slices.Clone(s.Notices)
	f.Background = slices.Clone(s.Background)
	f.Stops = slices.Clone(s.Stops)
	f.BackgroundApprovals = slices.Clone(s.BackgroundApprovals)
	if s.Turn != nil {
		t := *s.Turn
		t.Calls = slices.Clone(t.Calls)
		t.ByID = slices.Clone(t.ByID)
		t.Approvals = slices.Clone(t.Approvals)
		t.Undecided = slices.Clone(t.Undecided)
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

// Cursor returns the last handled command of a lane.
func (s *State) Cursor(l events.Lane) uint64 {
	for _, c := range s.Cursors {
		if c.Lane == l {
			return c.Seq
		}
	}
	return 0
}

// Handled reports whether the cause is known: from one of the last entries, or as an ask that caused an earlier one.
func (s *State) Handled(cause string) bool {
	return slices.Contains(s.Causes, cause) || commands.Recall(&s.Asks, cause) > 0
}

// idle reports whether no turn, task or mutator is in progress.
func (s *State) idle() bool {
	p := s.whereIdle()
	return s.Turn == nil && s.Task == nil && p != atMutator && p != atAfterTurn
}

// cancelling reports whether the open turn is being cancelled.
func (s *State) cancelling() bool { return s.Turn != nil && s.Turn.Cancel != nil }

// here returns the open turn and its round, or the last turn and round.
func (s *State) here() (content.TurnID, int) {
	if s.Turn != nil {
		return s.Turn.ID, s.Turn.Round
	}
	return s.Last.Turn, s.Last.Rounds
}

func (s *State) turnOptions() events.TurnOptions {
	if s.Turn == nil || s.Turn.Options == nil {
		return events.TurnOptions{}
	}
	return *s.Turn.Options
}

// PendingApprovals lists the open questions: about calls in the background, then by call,
// then about the task's verifier.
func (s *State) PendingApprovals() []events.Approval {
	var out []events.Approval
	for _, a := range s.BackgroundApprovals {
		if a.Outcome == "" {
			out = append(out, a.Approval)
		}
	}
	for _, c := range s.roundCalls() {
		for _, a := range s.Turn.Approvals {
			if a.Outcome == "" && a.CallID == c.ID {
				out = append(out, a.Approval)
			}
		}
	}
	if s.Turn != nil {
		if a, asked := s.verifierApproval(); asked && a.Outcome == "" {
			out = append(out, a.Approval)
		}
	}
	return out
}

// approvals lists all questions: those about calls in the background, then the turn's.
func (s *State) approvals() []Approval {
	if s.Turn == nil {
		return slices.Clone(s.BackgroundApprovals)
	}
	return slices.Concat(s.BackgroundApprovals, s.Turn.Approvals)
}

// undecided reports whether a question about the call is pending; without a call, any.
func (s *State) undecided(c content.CallID) bool {
	return s.Turn != nil && undecided(s.Turn.Approvals, c) || undecided(s.BackgroundApprovals, c)
}

func undecided(all []Approval, c content.CallID) bool {
	return slices.ContainsFunc(all, func(a Approval) bool { return a.Outcome == "" && (c == "" || a.CallID == c) })
}
