package explain

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// fold is the state that readers share: the position of the session, and the calls that they keep.
type fold struct {
	keep func(content.ToolCall) bool

	at      At // the current entry
	writer  Writer
	sender  Key // key that signed the entry's cause
	session content.SessionID
	opener  Person
	agent   string
	model   string
	policy  *Policy
	ruled   bool // the session has rules
	allowed map[content.ApprovalID][]string

	queue    []queued
	turn     content.TurnID // the last one
	open     bool           // it has not ended
	trigger  events.Origin
	inputs   []Input // the turn's input
	unknown  bool    // some input of the turn was queued before the reader resumed
	narrowed bool    // the turn has rules
	reply    Asked   // the last reply, with only the fields that identify it

	owners   Owners
	resumed  bool           // the reader skipped entries
	short    map[*Call]bool // calls whose earlier history is partly unknown
	calls    []*Call
	byID     map[content.CallID]*Call
	argv     []string // command of the open task's verifier
	verifier *Call    // the last one
}

// queued is input that has not joined a turn.
type queued struct {
	Input

	items  int
	task   bool
	onBusy events.OnBusy
}

func newFold(keep func(content.ToolCall) bool) fold {
	return fold{keep: keep, byID: map[content.CallID]*Call{}, short: map[*Call]bool{}, allowed: map[content.ApprovalID][]string{}}
}

// begin sets the entry of the events that follow.
func (f *fold) begin(r journal.Record) {
	f.at = At{r.Seq, r.Entry.At}
	f.session = cmp.Or(f.session, r.Entry.Session)
	f.writer.Epoch, f.writer.Key, f.sender = r.Entry.Epoch, Key(r.Signature.Key), ""
	f.writer.Owner = f.owners.of(f.writer.Key)
	if len(r.Entry.Events) > 0 {
		if c, ok := r.Entry.Events[0].(events.CommandSigned); ok {
			f.sender = Key(c.Signature.Key)
		}
	}
}

// note folds an event. Its type is any because a switch over an events.Event must be complete.
func (f *fold) note(ev any) {
	switch ev := ev.(type) {
	case events.DriverClaimed:
		f.writer.Node = ev.Node
	case events.RunStarted:
		f.opener = f.owners.person(ev.User, ev.By, f.sender)
		f.configure(ev.Config)
	case events.ConfigChanged:
		f.configure(ev.Config)
	case events.ModelSwitched:
		f.model = ev.Model
	case events.PolicyApplied:
		f.policy = &Policy{f.at, ev.Policy.Name, ev.Policy.Digest}
	case events.ToolsAllowed:
		f.allowed[ev.Grant] = ev.Tools
	case events.TaskStarted:
		f.argv = ev.Spec.Verifier
	default:
		f.noteTurn(ev)
		f.noteCall(ev)
	}
}

func (f *fold) configure(c events.Config) {
	f.model, f.ruled = c.Model, len(c.Rules) > 0
	if c.Agent != nil {
		f.agent = c.Agent.Name
	}
}

// noteTurn folds input, turns and replies.
func (f *fold) noteTurn(ev any) {
	switch ev := ev.(type) {
	case events.InputQueued:
		in := Input{f.at, ev.Origin, f.owners.person(ev.User, ev.By, f.sender), textOf(ev.Items)}
		f.queue = append(f.queue, queued{in, len(ev.Items), ev.Task != nil, ev.OnBusy})
	case events.InputAccepted:
		f.accept(ev)
	case events.TurnStarted:
		f.turn, f.trigger, f.open = ev.Turn, ev.Trigger, true
		f.narrowed = ev.Options != nil && len(ev.Options.Rules) > 0
	case events.TurnFinished:
		f.open = false
	case events.ReplyRecorded:
		f.reply = Asked{Reply: f.at, Model: cmp.Or(ev.Model, f.model), ID: ev.ResponseID}
	}
}

// accept moves queued input into the turn, as the core does: the task's goal, or the input that may join the turn now.
func (f *fold) accept(ev events.InputAccepted) {
	if ev.Turn != f.turn || !f.open {
		f.turn, f.inputs, f.unknown = ev.Turn, nil, false
	}
	if ev.Options != nil {
		f.narrowed = len(ev.Options.Rules) > 0
	}
	var taken func(queued) bool
	switch ev.Origin {
	case events.FromTask:
		taken = func(q queued) bool { return q.task }
	case events.FromHost, events.FromParent:
		taken = func(q queued) bool { return !q.task && (!f.open || q.onBusy == events.Steer) }
	case events.FromVerifier, events.FromNotification, events.FromSchema:
		f.inputs = append(f.inputs, Input{f.at, ev.Origin, Person{}, textOf(ev.Items)})
		return
	default:
		return
	}
	items := 0
	for _, q := range f.queue {
		if taken(q) {
			f.inputs, items = append(f.inputs, q.Input), items+q.items
		}
	}
	f.unknown = f.unknown || items < len(ev.Items)
	f.queue = slices.DeleteFunc(f.queue, taken)
}

// textOf returns the text of items, without other parts.
func textOf(items []content.Item) (text string) {
	for _, it := range items {
		if t := it.Text(); t != "" && text != "" {
			text += "\n" + t
		} else {
			text += t
		}
	}
	return text
}

// add keeps a requested call, or the call of a verifier that is about to run.
func (f *fold) add(c content.ToolCall, turn content.TurnID, round int, effects content.Effects) *Call {
	asked := f.reply
	asked.Opener, asked.Agent, asked.Trigger, asked.Writer = f.opener, f.agent, f.trigger, f.writer
	asked.Inputs = slices.Clone(f.inputs)
	kept := &Call{
		Session: f.session, ID: c.ID, Place: c.Place, Tool: c.Name, Effects: string(cmp.Or(effects, "once")),
		Turn: turn, Round: round, Written: c.Input, Asked: asked, Policy: f.policy,
	}
	if c.ProviderID != string(c.ID) {
		kept.Provider = c.ProviderID
	}
	f.short[kept] = f.resumed && (f.unknown || asked.Model == "")
	f.calls = append(f.calls, kept)
	f.byID[c.ID] = kept
	return kept
}

// verify returns the call of a verifier: nil if it is not kept.
func (f *fold) verify(place content.Place) *Call {
	if c := f.byID[content.CallID(place)]; c != nil {
		return c
	}
	input, _ := json.Marshal(map[string][]string{"argv": f.argv}) // strings never fail
	c := content.ToolCall{ID: content.CallID(place), Place: place, Name: loop.VerifierTool, Input: input}
	if !f.keep(c) {
		return nil
	}
	return f.add(c, f.turn, 0, content.Once)
}
