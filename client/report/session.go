package report

import (
	"cmp"
	"strings"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Session is the state of a session in reports.
type Session struct {
	Session   content.SessionID `json:"session"`
	State     string            `json:"state"` // idle, working, approval, yield, ready, closed, deleted, never opened
	Agent     *Agent            `json:"agent,omitempty"`
	Model     string            `json:"model"`
	Changed   content.Time      `json:"changed_at"`
	Turns     int               `json:"turns"`
	Turn      content.TurnID    `json:"turn,omitempty"` // the open turn
	Round     int               `json:"round,omitempty"`
	Last      *Ended            `json:"last,omitempty"` // the last turn that ended
	Items     int               `json:"items"`
	Queued    int               `json:"queued"`
	Usage     Usage             `json:"usage"`
	Requests  int64             `json:"requests"`
	ToolCalls int64             `json:"tool_calls"`
	Approvals []events.Approval `json:"approvals,omitempty"`
	Epoch     uint64            `json:"epoch"`
	Journal   Head              `json:"journal"`
	Parent    content.SessionID `json:"parent,omitempty"`  // the session that it works for
	From      string            `json:"from,omitempty"`    // if it is a fork: the entry that it continues
	Deleted   *events.Deletion  `json:"deleted,omitempty"` // if set, nothing else is known
}

// Agent is the agent that a session started with.
type Agent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Ended is how a turn ended.
type Ended struct {
	Turn   content.TurnID       `json:"turn"`
	Reason content.FinishReason `json:"finish_reason"`
	Error  string               `json:"error,omitempty"` // why it failed
}

// Of returns the report of a session in a state.
func Of(s *loop.State, head journal.Head) Session {
	r := Session{
		Session: s.Session, State: string(loop.Waiting(s)), Model: s.Config.Model, Changed: s.At,
		Turns: s.Turns, Items: len(s.Transcript), Queued: len(s.Queue), Usage: Usage(s.Used.Usage),
		Requests: s.Used.Requests, ToolCalls: s.Used.ToolCalls, Approvals: s.PendingApprovals(),
		Epoch: s.Epoch, Journal: HeadOf(head), Parent: s.Parent, From: originOf(s), Deleted: s.Deleted,
	}
	if ref := s.Config.Agent; ref != nil {
		r.Agent = &Agent{Name: ref.Name, Version: ref.Version}
	}
	if s.Turn != nil {
		r.Turn, r.Round = s.Turn.ID, s.Turn.Round
	}
	if l := s.Last; l != nil {
		r.Last = &Ended{Turn: l.Turn, Reason: l.FinishReason}
		if l.Error != nil {
			r.Last.Error = l.Error.Message
		}
	}
	switch {
	case s.Deleted != nil:
		r.State = "deleted"
	case !s.Opened:
		r.State = "never opened" // the request to open it was refused
	case s.Closed:
		r.State = "closed"
	case r.State == string(commands.WaitInput):
		r.State = "idle"
	}
	return r
}

// StateAside is the state of a session that crashed its nodes, so that no node drives it.
const StateAside = "aside"

// Summary is a session in a list.
type Summary struct {
	Session content.SessionID `json:"session"`
	State   string            `json:"state"`
	Title   string            `json:"title"`
	Agent   *Agent            `json:"agent,omitempty"`
	Model   string            `json:"model"`
	Changed content.Time      `json:"changed_at"`
	Turns   int               `json:"turns"`
	Usage   Usage             `json:"usage"`
	Owner   string            `json:"owner,omitempty"`  // see Owner
	Parent  content.SessionID `json:"parent,omitempty"` // the session that it works for
	From    string            `json:"from,omitempty"`   // if it is a fork: the entry that it continues
	Folder  string            `json:"folder,omitempty"` // see MetaFolder

	tools string // names of the tools called in its transcript, each followed by a newline
}

// originOf returns the entry that a fork continues, without its hash, or "".
func originOf(s *loop.State) string {
	at, err := events.ParseEntryRef(s.From)
	if err != nil {
		return ""
	}
	return at.Place()
}

// Of says where the session came from: the entry that it is a fork of, the session that it works for, or "-".
func (s Summary) Of() string { return cmp.Or(s.From, string(s.Parent), "-") }

// MetaFolder is the key of a session's metadata for the folder in which an editor opened it.
const MetaFolder = "folder"

// Tokens returns the tokens that the session has used.
func (s Summary) Tokens() int64 { return s.Usage.InputTokens + s.Usage.OutputTokens }

// AgentName returns the name of the session's agent, or "-".
func (s Summary) AgentName() string {
	if s.Agent == nil {
		return "-"
	}
	return s.Agent.Name
}

// titleWidth is the longest title, in characters.
const titleWidth = 60

// TitleOf returns the start of the first user input in the transcript.
func TitleOf(s *loop.State) string {
	for _, it := range s.Transcript {
		if it.Kind != content.User {
			continue
		}
		return Title(it.Text())
	}
	return ""
}

// Title shortens a text to a title.
func Title(text string) string {
	title := []rune(strings.Join(strings.Fields(text), " "))
	if len(title) > titleWidth {
		title = append(title[:titleWidth-1], '…')
	}
	return string(title)
}
