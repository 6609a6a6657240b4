package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/worker/task"
)

// phrases says in sentences what package explain found. Models, tools and forgers may have written any text in a
// journal. So quote marks such text, and only phrases appear in a sentence unquoted.
type phrases struct {
	quote func(text string) phrase
	code  func(text string) phrase // of arguments, which are JSON
	bare  func(text string) bool   // whether a word needs no quotes
}

// phrase is text of this package, or quoted text.
type phrase string

const notRecorded phrase = "not recorded"

// args shows arguments, which need not be JSON.
func (p phrases) args(raw json.RawMessage) phrase {
	if json.Valid(raw) {
		return p.code(compact(raw))
	}
	return p.quote(string(raw))
}

// say formats a sentence. It quotes every text that is not a phrase, unless it is a single word.
func (p phrases) say(format string, args ...any) phrase {
	for i, a := range args {
		if _, ours := a.(phrase); ours {
			continue
		}
		if v := reflect.ValueOf(a); v.Kind() == reflect.String {
			args[i] = p.word(v.String())
		}
	}
	return phrase(fmt.Sprintf(format, args...))
}

func (p phrases) word(text string) phrase {
	if p.bare(text) {
		return phrase(text)
	}
	return p.quote(text)
}

func (p phrases) at(a explain.At) phrase {
	return p.say("at %s (entry %d)", a.Time, a.Seq)
}

// by names who did something.
func (p phrases) by(who explain.Person) phrase {
	name := who.String()
	if name == "" {
		return "a person whose name is " + notRecorded
	}
	return p.quote(name) + ", " + p.key(who.Key)
}

// person is by for the start of a sentence.
func (p phrases) person(who explain.Person) phrase {
	if who.String() == "" {
		return p.by(who)
	}
	return p.by(who) + ","
}

func (p phrases) key(k explain.Key) phrase {
	if k == "" {
		return "unsigned"
	}
	return "signed with key " + p.word(string(k))
}

// keyOf is key, with the owner of the key if that is known.
func (p phrases) keyOf(k explain.Key, owner string) phrase {
	if owner == "" {
		return p.key(k)
	}
	return p.key(k) + " of " + p.word(owner)
}

// host returns the name of a node, and the owner of its key if the names differ.
func (p phrases) host(h explain.Host) phrase {
	if h.Owner == "" || h.Owner == h.Node {
		return p.word(h.Node)
	}
	return p.word(h.Node) + " of " + p.word(h.Owner)
}

func (p phrases) writer(w explain.Writer) phrase {
	if w.Node == "" {
		return p.say("the host of epoch %d", w.Epoch)
	}
	return p.say("node %s (epoch %d)", p.host(w.Host), w.Epoch)
}

// asked says where the call comes from.
func (p phrases) asked(a explain.Asked) (out []phrase) {
	if a.Opener.String() != "" {
		out = append(out, "The session was opened by "+p.by(a.Opener)+".")
	}
	if a.Agent != "" {
		out = append(out, "Its agent is "+p.word(a.Agent)+".")
	}
	for _, in := range a.Inputs {
		out = append(out, p.input(in))
	}
	model := p.word(a.Model)
	if a.Model == "" {
		model = "whose name is " + notRecorded
	}
	if a.Reply.Seq == 0 {
		return append(out, "No model's reply asked for it.")
	}
	return append(out, p.say("The model %s asked for the call in its reply %s, as %s recorded it, %s.",
		model, p.at(a.Reply), p.writer(a.Writer), p.keyOf(a.Writer.Key, a.Writer.Owner)))
}

func (p phrases) input(in explain.Input) phrase {
	what := ": " + p.quote(in.Text)
	switch in.Origin {
	case events.FromHost, events.FromTask:
		if in.From.String() == "" {
			return "Input arrived " + p.at(in.At) + " from a sender that is " + notRecorded + what
		}
		return p.person(in.From) + " sent input " + p.at(in.At) + what
	case events.FromParent:
		return "The session that this one works for sent input " + p.at(in.At) + what
	case events.FromVerifier:
		return "The verifier of the task reported " + p.at(in.At) + what
	case events.FromNotification:
		return "A call in the background ended, and its notification arrived " + p.at(in.At) + what
	case events.FromSchema:
		return "The core asked for an answer that fits the schema " + p.at(in.At) + what
	}
	return "Input of the origin " + p.quote(string(in.Origin)) + " arrived " + p.at(in.At) + what
}

// arguments says with which arguments the call ran.
func (p phrases) arguments(c explain.Call) (out []phrase) {
	written := "The model wrote " + p.args(c.Written) + "."
	if c.Asked.Reply.Seq == 0 {
		written = "They were " + p.args(c.Written) + "."
	}
	out = append(out, written)
	for _, q := range c.Questions {
		if d := q.Decision; d != nil && len(d.Input) > 0 {
			out = append(out, p.say("%s put %s in their place %s.", p.person(d.Decider), p.args(d.Input), p.at(d.At)))
		}
	}
	switch {
	case len(c.Attempts) == 0:
	case len(c.Ran) > 0:
		out = append(out, "The call ran with "+p.args(c.Ran)+".")
	default:
		out = append(out, "The call ran with them unchanged.")
	}
	return out
}

// allowed says why the call could start, or was refused.
func (p phrases) allowed(c explain.Call) (out []phrase) {
	for _, q := range c.Questions {
		out = append(out, p.question(q))
	}
	for _, h := range c.Hooks {
		out = append(out, p.hook(h))
	}
	if n := len(c.Attempts); n > 0 {
		return append(out, p.grounds(c, c.Attempts[n-1])...)
	}
	if len(c.Results) == 0 {
		return append(out, "It has not started.")
	}
	r := c.Results[0]
	return append(out, p.say("It never ran. The core answered it %s with %s: %s", p.at(r.At), r.Status, p.quote(cmp.Or(r.Text, r.Code))))
}

func (p phrases) question(q explain.Question) phrase {
	asker := phrase("A policy of the host or the worker")
	switch q.Asker {
	case events.AskedByRules:
		asker = "A rule of the policy or the session"
	case events.AskedByTurn:
		asker = "A rule of the turn"
	}
	text := p.say("%s asked %s, as approval %s (%s): %s ", asker, p.at(q.At), q.ID, p.word(q.Kind), p.quote(q.Summary))
	d := q.Decision
	switch {
	case d == nil:
		return text + "Nothing was decided."
	case d.Outcome == events.Expired:
		return text + "It was not decided in time: it expired " + p.at(d.At) + "."
	case d.Outcome == events.Moot:
		return text + "It became unnecessary " + p.at(d.At) + "."
	case d.Outcome == events.ApprovalCancelled:
		return text + "It was cancelled " + p.at(d.At) + "."
	case len(d.Allowed) > 0:
		text += p.say("No person was asked: %s had allowed the tools %s (%s)", p.person(d.Decider), p.quote(strings.Join(d.Allowed, ", ")), d.Grant)
	case d.Grant != "":
		text += p.say("No person was asked: %s had approved the same for the rest of the session (%s)", p.person(d.Decider), d.Grant)
	default:
		text += p.say("%s %s it %s", p.person(d.Decider), d.Outcome, p.at(d.At))
	}
	if d.Always {
		text += ", for the rest of the session"
	}
	if d.Reason != "" {
		return text + ": " + p.quote(d.Reason)
	}
	return text + "."
}

func (p phrases) hook(h explain.Hook) phrase {
	who := phrase("The hooks")
	if h.Hook != "" {
		who = "The hook " + p.word(h.Hook)
	}
	text := p.say("%s decided at %s %s: %s", who, h.Point, p.at(h.At), h.Action)
	if h.Reason != "" {
		text += ", because " + p.quote(h.Reason)
	}
	for _, name := range h.FailedOpen {
		text += "; " + p.word(name) + " failed and was ignored"
	}
	return text + "."
}

// grounds says what an attempt names as its grounds.
func (p phrases) grounds(c explain.Call, a explain.Attempt) []phrase {
	if a.Unrestricted {
		return []phrase{"Nothing restricted it: the session has no policy and no rules."}
	}
	if len(a.Because) == 0 {
		return []phrase{"What let it start is " + notRecorded + ": an earlier release wrote the journal, or no rule of the core is about the call."}
	}
	var out []phrase
	approved := slices.ContainsFunc(a.Because, func(g events.Ground) bool { return g.By == events.ByApproval })
	for _, g := range a.Because {
		out = append(out, p.ground(c, g, approved))
	}
	return out
}

// ground says what a ground of a call means. A rule that asks lets an approved call start.
func (p phrases) ground(c explain.Call, g events.Ground, approved bool) phrase {
	effect := phrase("let it start.")
	asks := g.Action == events.RuleAsk || g.Action == events.RuleGuard && c.Effects != string(content.ReadOnly)
	if asks && approved {
		effect = "required an approval."
	}
	rule := p.say("rule %s (%s)", p.quote(g.Name), g.Action)
	if g.Queue != "" {
		rule += " for the queue " + p.word(g.Queue)
	}
	switch g.By {
	case events.ByPolicy:
		name := phrase("")
		if pol := c.Policy; pol != nil {
			name = p.say(" %s (digest %s, entry %d)", p.word(pol.Name), short(pol.Digest), pol.Seq)
		}
		return "The " + rule + " of the policy" + name + " " + effect
	case events.ByRule:
		return "The " + rule + " of the session, from its agent or the flags that opened it, " + effect
	case events.ByFlag:
		return "The " + rule + " of the turn, from the flags of its input, is about it."
	case events.ByApproval:
		return p.say("Approval %s let it start.", g.Name)
	case events.ByHook:
		return "The hook " + p.word(g.Name) + " let it pass."
	case events.ByEffects:
		return p.say("An attempt was lost, and the tool may run again: its effects are %s.", g.Name)
	case events.ByRetry:
		return "A person had it run again."
	}
	return "By " + p.quote(string(g.By)) + " " + p.quote(g.Name) + "." // of a later release
}

// short is the start of a digest.
func short(digest string) string { return digest[:min(len(digest), 12)] }

// places says where the call ran, and who intervened.
func (p phrases) places(c explain.Call) (out []phrase) {
	for i, a := range c.Attempts {
		where, runner := phrase("ran it itself"), phrase("Its result is ")
		if byWorker(a) {
			where, runner = "handed it to the workers of the queue "+p.word(a.Queue), "Its worker's name is "+notRecorded+", and its result is "
			if a.Runner != "" {
				runner = "Its result is "
			}
		}
		verb := phrase("started")
		if i > 0 && c.Attempts[i-1].N == a.N {
			verb = "continued after its question"
		}
		out = append(out, p.say("Attempt %d %s %s: %s %s. ", a.N, verb, p.at(a.At), p.writer(a.Writer), where)+runner+p.keyOf(a.Worker, a.Runner)+".")
		if l := a.Lost; l != nil {
			out = append(out, p.say("Attempt %d was lost %s: %s", a.N, p.at(l.At), p.quote(l.Reason)))
		}
	}
	if len(c.Attempts) == 0 {
		out = append(out, "It did not run.")
	}
	for _, o := range c.Orders {
		text := p.say("%s had it %s %s", p.person(o.From), o.Action, p.at(o.At))
		if o.Scope != "" {
			text = p.say("%s cancelled its %s %s", p.person(o.From), o.Scope, p.at(o.At))
		}
		if o.Reason != "" {
			text += ": " + p.quote(o.Reason)
		}
		out = append(out, text+".")
	}
	return out
}

// byWorker reports whether an attempt runs on a worker. A node's own tools have a queue that no worker can have.
func byWorker(a explain.Attempt) bool { return a.Queue != "" && a.Queue != task.LocalQueue }

// results says what came back.
func (p phrases) results(c explain.Call) (out []phrase) {
	for _, r := range c.Results {
		from := phrase("the core, not a worker")
		if r.Attempt > 0 {
			from = p.say("attempt %d", r.Attempt)
			if r.Took > 0 {
				from += " after " + phrase(rounded(time.Duration(r.Took)).String())
			}
		}
		text := p.say("%s %s, from %s, %s", r.Status, p.at(r.At), from, p.key(r.Worker))
		if r.Late {
			text += ", after the call had been answered"
		}
		if r.Code != "" {
			text += ", code " + p.word(r.Code)
		}
		text += ": " + phrase(Plural(r.Bytes, "byte", "bytes")) + " of text"
		if r.Others > 0 {
			text += ", " + phrase(Plural(r.Others, "other part", "other parts"))
		}
		if r.Bytes > 0 {
			text += ": " + p.quote(r.Text)
		}
		out = append(out, text)
		if len(r.Changed) > 0 {
			out = append(out, "It changed "+p.quote(strings.Join(r.Changed, ", "))+".")
		}
	}
	if len(out) == 0 {
		out = append(out, "Nothing yet.")
	}
	return out
}

// seen says what models saw of the result.
func (p phrases) seen(c explain.Call) (out []phrase) {
	cut := slices.ContainsFunc(c.Results, func(r explain.Result) bool { return r.Cut })
	for _, s := range c.Seen {
		what := map[explain.Form]phrase{
			explain.FormFull:        "saw the result as it came back",
			explain.FormPlaceholder: "saw that the call runs in the background",
			explain.FormNotice:      "saw the result in a notification",
			explain.FormChanged:     "saw another text in its place, from " + p.word(s.Through),
			explain.FormGone:        "no longer saw it: removed by " + p.word(s.Through),
		}[s.Form]
		out = append(out, p.say("From round %d of %s on, the model %s (entry %d).", s.Round, s.Turn, what, s.Seq))
	}
	if len(out) == 0 {
		out = append(out, "No model call followed that saw it.")
	}
	if cut {
		out = append(out, "Its worker had cut the output to the limit of the tool.")
	}
	return out
}

// title says what the call is.
func (p phrases) title(c explain.Call) phrase {
	outcome := phrase("no result yet")
	if c.Status != "" {
		outcome = phrase(Safe(outcomeOf(c.Status)))
	}
	return p.say("Call %s of %s in session %s: %s", c.ID, p.word(c.Tool), c.Session, outcome)
}

func outcomeOf(s content.Status) string {
	if s.Public() == string(s) {
		return string(s)
	}
	return s.Public() + " (" + string(s) + ")"
}
