package conformance

import (
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// step is one action of the host. Exactly one field is set, except for those that belong to
// another.
type step struct {
	Submit  string        `yaml:"submit"`
	OnBusy  events.OnBusy `yaml:"on_busy"` // of Submit
	Only    narrowing     `yaml:"only"`    // of Submit
	Run     string        `yaml:"run"`     // an input whose turn is followed to its end, which Next and Result describe
	Stream  string        `yaml:"stream"`  // an input whose turn is streamed: Shown is its text, Retries how often a reader must drop it
	Shown   string        `yaml:"shown"`
	Retries int           `yaml:"retries"`
	Task    *taskSpec     `yaml:"task"`
	Wait    time.Duration `yaml:"wait"`  // for time to pass
	Until   string        `yaml:"until"` // waits until this event is in the journal
	Act     *act          `yaml:"act"`

	// Next is what the next step must be: awaiting_input; finished REASON, or
	// finished REASON: TEXT; approval TOOL KIND; after_tool_result; error: TEXT.
	Next   string        `yaml:"next"`
	Result *result       `yaml:"result"` // of Next: the result of the turn
	Items  int           `yaml:"items"`  // of Next: how many items the transcript has at the yield
	When   string        `yaml:"when"`   // of Next: once this event is in the journal, do …
	After  time.Duration `yaml:"after"`  // … so much later
	Do     *act          `yaml:"do"`
}

// act is an action that is possible at any time.
type act struct {
	Approve string `yaml:"approve"` // a call's tool
	Deny    string `yaml:"deny"`    // a call's tool
	Reason  string `yaml:"reason"`  // of Deny and Cancel
	Input   string `yaml:"input"`   // of Approve: the patch
	Always  bool   `yaml:"always"`  // of Approve
	By      string `yaml:"by"`      // of Approve, Deny, Submit: handle, of the last step; only, the one that there is

	Cancel     string `yaml:"cancel"`      // turn, or session
	CancelCall string `yaml:"cancel_call"` // of a tool
	Detach     string `yaml:"detach"`      // the call of a tool

	Submit string        `yaml:"submit"`
	Kind   content.Kind  `yaml:"kind"`    // of Submit; empty: user
	OnBusy events.OnBusy `yaml:"on_busy"` // of Submit
	Only   narrowing     `yaml:"only"`    // of Submit

	Allow []string `yaml:"allow"` // tools, for the rest of the session

	Cache string `yaml:"cache"` // the mode of the next model call's
	Offer string `yaml:"offer"` // a tool, from now on
	Close string `yaml:"close"` // the session, for this reason

	Refused string `yaml:"refused"` // the reason with which it must be refused
}

// narrowing is the options of one turn.
type narrowing struct {
	Rules  []rule  `yaml:"rules"`
	Routes []route `yaml:"routes"`
	Limits limits  `yaml:"limits"`
}

// options returns nil if the step has none.
func (n narrowing) options() *events.TurnOptions {
	if n.Rules == nil && n.Routes == nil && n.Limits == (limits{}) {
		return nil
	}
	out := &events.TurnOptions{}
	if l := n.Limits.of(); l != (events.Limits{}) {
		out.Limits = &l
	}
	if n.Rules != nil {
		list := make([]events.Rule, len(n.Rules))
		for i, r := range n.Rules {
			list[i] = events.Rule{Tool: r.Tool, Action: r.Action}
		}
		out.Rules = [][]events.Rule{list}
	}
	for _, r := range n.Routes {
		out.Routes = append(out.Routes, events.RouteRule{Tool: r.Tool, Route: r.Route, DetachAfter: r.Detach})
	}
	return out
}

// taskSpec is a task.
type taskSpec struct {
	Goal    string `yaml:"goal"`
	Gate    string `yaml:"gate"` // a line for the shell, run in the session's root; empty: none
	Retries int    `yaml:"retries"`
	Refused string `yaml:"refused"`
}

func (s taskSpec) command() commands.StartTask {
	spec := events.TaskSpec{Goal: s.Goal, MaxRetries: s.Retries}
	if s.Gate != "" {
		spec.Verifier = []string{"sh", "-c", s.Gate}
	}
	return commands.StartTask{Spec: spec}
}

// result is the expected result of a turn. Only fields that are set are compared.
type result struct {
	Rounds      int         `yaml:"rounds"`
	Items       int         `yaml:"items"`
	Input       int64       `yaml:"input"`       // tokens
	Output      int64       `yaml:"output"`      // tokens
	Interrupted string      `yaml:"interrupted"` // the reason
	Stage       string      `yaml:"stage"`       // of the interrupt
	Limit       string      `yaml:"limit"`       // its text
	Hook        string      `yaml:"hook"`        // HOOK POINT: REASON
	Task        *taskResult `yaml:"task"`
}

// taskResult is the expected result of a task.
type taskResult struct {
	Status   string   `yaml:"status"`
	Verify   string   `yaml:"verify"`
	Verified bool     `yaml:"verified"`
	Attempts int      `yaml:"attempts"`
	Files    []string `yaml:"files"`
	Summary  string   `yaml:"summary"`
}
