package explain

import (
	"cmp"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Report is what a session did, for people who do not read journals.
type Report struct {
	Session  content.SessionID `json:"session"`
	Agent    string            `json:"agent,omitempty"`
	Models   []string          `json:"models"`
	Opened   At                `json:"opened"`
	Last     At                `json:"last"`
	Turns    []Turn            `json:"turns"`
	People   []Participant     `json:"people"`
	Nodes    []Host            `json:"nodes"`
	Policies []Policy          `json:"policies"`
	Acts     []*Call           `json:"acts"`   // calls that started and do more than read
	Denied   []*Call           `json:"denied"` // calls that a rule, a hook or a person denied, or that was not approved in time
	Reads    int               `json:"reads"`  // calls that started and only read
	Usage    content.Usage     `json:"usage"`
	Unread   int               `json:"unread,omitempty"` // entries that this release cannot read
}

// Turn is a turn in short.
type Turn struct {
	At

	Turn   content.TurnID       `json:"turn"`
	Inputs []Input              `json:"inputs"`
	Answer string               `json:"answer,omitempty"` // the last text of the model
	Finish content.FinishReason `json:"finish_reason,omitempty"`
}

// Participant is a person who took part in a session.
type Participant struct {
	Person

	Deeds []Deed `json:"deeds"`
}

// Deed is something that a person did, and how often.
type Deed struct {
	What  string `json:"what"`
	Times int    `json:"times"`
}

// clipped bounds the texts of a report, in bytes.
const clipped = 600

// ReportReader makes the report of a session. It keeps only the contents of the report, so its memory grows with
// the number of turns, calls that do more than read, and denied calls.
type ReportReader struct {
	fold   fold
	report Report
	turn   Turn

	models distinct[string]
	nodes  distinct[Host]
	people distinct[Person] // index of report.People
}

// distinct has each value once, in the order of its first use.
type distinct[T comparable] struct {
	all []T
	at  map[T]int
}

// add returns the index of a value, which it adds if it is new.
func (d *distinct[T]) add(one T) int {
	i, known := d.at[one]
	if !known {
		if d.at == nil {
			d.at = map[T]int{}
		}
		i = len(d.all)
		d.at[one], d.all = i, append(d.all, one)
	}
	return i
}

// NewReportReader returns a reader for one journal.
func NewReportReader() *ReportReader {
	return &ReportReader{fold: newFold(func(content.ToolCall) bool { return true })}
}

// Named makes the reader name people by the owners of their keys. Call it before the first Add.
func (r *ReportReader) Named(by Owners) { r.fold.owners = by }

// Add reads the next record.
func (r *ReportReader) Add(rec journal.Record) {
	r.fold.begin(rec)
	r.report.Last = r.fold.at
	if rec.Err != nil {
		r.report.Unread++
		return
	}
	for _, ev := range rec.Entry.Events {
		r.fold.note(ev)
		r.note(ev)
	}
}

// Report returns the report so far.
func (r *ReportReader) Report() Report {
	out := r.report
	out.Session, out.Agent = r.fold.session, r.fold.agent
	out.Models, out.Nodes = r.models.all, r.nodes.all
	out.Acts, out.Denied = slices.Clone(out.Acts), slices.Clone(out.Denied)
	if r.fold.open {
		out.Turns = append(slices.Clone(out.Turns), r.turn)
	}
	for _, c := range r.fold.calls {
		sortCall(&out, c)
	}
	byPlace := func(a, b *Call) int { return cmp.Compare(a.Asked.Reply.Seq, b.Asked.Reply.Seq) }
	slices.SortStableFunc(out.Acts, byPlace)
	slices.SortStableFunc(out.Denied, byPlace)
	return out
}

// sortCall adds a call to its list in the report.
func sortCall(out *Report, c *Call) {
	started := len(c.Attempts) > 0
	reads := c.Effects == string(content.ReadOnly)
	if started && reads {
		out.Reads++
	}
	if started && !reads {
		out.Acts = append(out.Acts, c)
	}
	if slices.ContainsFunc(c.Results, func(r Result) bool { return r.Status.Public() == content.StatusDenied.Public() }) {
		out.Denied = append(out.Denied, c)
	}
}

// note adds the contents of an event, after the fold.
func (r *ReportReader) note(ev any) {
	out := &r.report
	switch ev := ev.(type) {
	case events.DriverClaimed:
		if h := r.fold.writer.Host; h != (Host{}) {
			r.nodes.add(h)
		}
		r.did(Person{User: ev.User, By: ev.RetriedBy}, "retried the session")
	case events.RunStarted:
		out.Opened = r.fold.at
		r.model(ev.Config.Model)
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "opened the session")
	case events.ConfigChanged:
		r.model(ev.Config.Model)
	case events.ModelSwitched:
		r.model(ev.Model)
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "chose another model")
	case events.PolicyApplied:
		out.Policies = append(out.Policies, *r.fold.policy)
	case events.ToolsAllowed:
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "allowed tools in advance")
	case events.UsageUpdated:
		out.Usage = out.Usage.Add(ev.Usage)
	case events.TurnStarted:
		r.turn = Turn{At: r.fold.at, Turn: ev.Turn}
	case events.ReplyRecorded:
		if text := textOf(ev.Items); text != "" {
			r.turn.Answer = clip(text, 0, clipped)
		}
	case events.TurnFinished:
		r.endTurn(ev)
	default:
		r.noteDeed(ev)
	}
	if r.fold.open {
		r.turn.Inputs = r.fold.inputs
	}
}

// noteDeed adds what a person did.
func (r *ReportReader) noteDeed(ev any) {
	switch ev := ev.(type) {
	case events.InputQueued:
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "sent input")
	case events.ApprovalResolved:
		if ev.Grant == "" {
			r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), string(ev.Outcome)+" a call")
		}
	case events.DeadLetterSettled:
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "decided about a lost call")
	case events.ToolDetached:
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "sent a call to the background")
	case events.CancelRequested:
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "cancelled")
	case events.VerifyFinished:
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "reported the verdict on a task")
	case events.SessionClosed:
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "closed the session")
	case events.SessionDeleted:
		r.did(r.fold.owners.person(ev.User, ev.By, r.fold.sender), "deleted the session")
	}
}

// endTurn ends the turn, and keeps only the parts of its calls that belong in the report.
func (r *ReportReader) endTurn(ev events.TurnFinished) {
	r.turn.Finish = ev.FinishReason
	for i := range r.turn.Inputs {
		r.turn.Inputs[i].Text = clip(r.turn.Inputs[i].Text, 0, clipped)
	}
	r.report.Turns = append(r.report.Turns, r.turn)
	r.fold.calls = slices.DeleteFunc(r.fold.calls, func(c *Call) bool {
		if c.Status == "" {
			return false // it runs in the background
		}
		for i := range c.Results {
			c.Results[i].Text = clip(c.Results[i].Text, 0, clipped)
		}
		c.Asked.Inputs = nil
		known := len(r.report.Acts) + len(r.report.Denied)
		sortCall(&r.report, c)
		if len(r.report.Acts)+len(r.report.Denied) == known {
			delete(r.fold.byID, c.ID)
		}
		return true
	})
}

// did counts what a person did. Signed and unsigned deeds are counted separately.
func (r *ReportReader) did(who Person, what string) {
	if who.User+who.By == "" {
		return
	}
	i := r.people.add(who)
	if i == len(r.report.People) {
		r.report.People = append(r.report.People, Participant{Person: who})
	}
	deeds := &r.report.People[i].Deeds
	j := slices.IndexFunc(*deeds, func(d Deed) bool { return d.What == what })
	if j < 0 {
		j = len(*deeds)
		*deeds = append(*deeds, Deed{What: what})
	}
	(*deeds)[j].Times++
}

func (r *ReportReader) model(name string) {
	if name != "" {
		r.models.add(name)
	}
}
