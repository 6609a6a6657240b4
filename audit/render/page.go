package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
)

// page is a report as text, the same in every format.
type page struct {
	Title   phrase
	Period  phrase
	Rating  string // good, plain or bad
	Verdict phrase
	Covers  phrase
	Faults  []phrase
	Unread  phrase // why the record does not show everything; empty: it does

	Facts    []line
	People   []line
	Turns    []block
	Acts     []block
	Denied   []block
	Unproved []phrase
	Foot     phrase
}

// line is a name and its value.
type line struct {
	Name, Text phrase
}

// block is a thing with details.
type block struct {
	Name   phrase
	Status phrase
	Rating string
	Lines  []line
}

const shownFaults = 10

// pageOf writes a report in phrases.
func (p phrases) page(r explain.Report, v *verdict.Verdict) page {
	out := page{
		Title:  p.say("Report on session %s", r.Session),
		Period: p.say("From %s to %s", day(r.Opened), day(r.Last)),
		Unread: unread(r, v),
		Foot: p.say("The record ends with entry %d, whose SHA-256 is %s. \"observer verify\" repeats the verdict, and \"observer explain\" explains one call.",
			v.Head.Seq, phrase(v.Head.Hash.String())),
	}
	p.judge(&out, v)
	out.Facts = p.facts(r, out.Unread != "")
	for _, who := range r.People {
		var deeds []string
		for _, d := range who.Deeds {
			deeds = append(deeds, times(d.What, d.Times))
		}
		out.People = append(out.People, line{p.quote(who.Person.String()), phrase(strings.Join(deeds, ", ")) + ", " + p.key(who.Key)})
	}
	for _, t := range r.Turns {
		out.Turns = append(out.Turns, p.turn(t))
	}
	for _, c := range r.Acts {
		out.Acts = append(out.Acts, p.act(*c))
	}
	for _, c := range r.Denied {
		out.Denied = append(out.Denied, p.act(*c))
	}
	return out
}

// unread says why a report does not have everything that happened.
func unread(r explain.Report, v *verdict.Verdict) phrase {
	switch {
	case v.State != "":
		return "Not known: the content was removed."
	case r.Unread > 0:
		return phrase("Not known: " + Plural(r.Unread, "entry", "entries") + " cannot be read.")
	}
	return ""
}

func day(a explain.At) phrase {
	if a.Time == 0 {
		return "an unknown time"
	}
	return phrase(a.Time.Std().Format("2 January 2006, 15:04:05 UTC"))
}

// times says how often something was done.
func times(what string, n int) string {
	if n == 1 {
		return what
	}
	return fmt.Sprintf("%s (%d times)", what, n)
}

// judge says what the verdict means.
func (p phrases) judge(out *page, v *verdict.Verdict) {
	meaning := map[verdict.Level]phrase{
		verdict.Chain:     "The record is unbroken in itself: no entry was changed, removed or added without making all later ones again. Nothing outside of it confirms that.",
		verdict.Signed:    "The record is unbroken, and each entry is signed by the host that wrote it.",
		verdict.Anchored:  "The record is unbroken, and still contains what was kept of it elsewhere.",
		verdict.Witnessed: "The record is unbroken, and the witnesses that the verifier requires confirmed it.",
	}
	covers := p.say("Level %s, through entry %d, by %s", v.Level.String(), v.Through.Seq, v.Through.At)
	if len(v.Witnesses) > 0 {
		covers += ", confirmed by " + p.quote(strings.Join(v.Witnesses, ", "))
	}
	switch findings := v.Exit(verdict.None) == verdict.ExitFault; {
	case findings:
		out.Rating = "bad"
		out.Verdict = phrase(Plural(len(v.Faults), "fault was", "faults were") + " found. Do not rely on what this report says.")
	case !v.OK():
		out.Rating, out.Verdict = "bad", "The record cannot be judged as a whole. Do not rely on what this report says."
	case v.State != "":
		out.Rating, out.Verdict = "plain", p.say("The content was removed (%s). The proof of that is intact.", string(v.State))
		if v.Tombstone != nil {
			covers = "The session " + p.quote(v.Tombstone.String())
		}
	default:
		out.Rating, out.Verdict, out.Covers = "plain", meaning[v.Level], covers
		if v.Level >= verdict.Anchored {
			out.Rating = "good"
		}
	}
	if v.State != "" {
		out.Covers = covers
	}
	for i, f := range v.Faults {
		if i == shownFaults {
			out.Faults = append(out.Faults, phrase(fmt.Sprintf("… and %d more", len(v.Faults)-i)))
			break
		}
		out.Faults = append(out.Faults, p.quote(f.String()))
	}
	for _, what := range v.NotProved {
		out.Unproved = append(out.Unproved, phrase(Safe(what)))
	}
	if v.OpenTurn != "" {
		out.Unproved = append(out.Unproved, p.say("how %s ended: the record stops inside it", v.OpenTurn))
	}
	if v.UnjudgedFrom > 0 {
		out.Unproved = append(out.Unproved, p.say("the meaning of the entries from %d on: only their order was checked", v.UnjudgedFrom))
	}
}

// facts returns the record in numbers. If a part of it cannot be read, they are minimums.
func (p phrases) facts(r explain.Report, part bool) (out []line) {
	add := func(name phrase, words []string) {
		if len(words) > 0 {
			out = append(out, line{name, p.words(words)})
		}
	}
	if r.Agent != "" {
		add("Agent", []string{r.Agent})
	}
	add("Models", r.Models)
	var hosts []string
	for _, h := range r.Nodes {
		hosts = append(hosts, string(p.host(h)))
	}
	if len(hosts) > 0 {
		out = append(out, line{"Hosts", phrase(strings.Join(hosts, ", "))})
	}
	var policies []string
	seen := map[string]bool{}
	for _, pol := range r.Policies {
		name := fmt.Sprintf("%s (%s)", pol.Name, short(pol.Digest))
		if !seen[name] {
			policies = append(policies, name)
		}
		seen[name] = true
	}
	add("Policies", policies)
	least := phrase("")
	if part {
		least = "at least "
	}
	out = append(out,
		line{"Turns", least + phrase(strconv.Itoa(len(r.Turns)))},
		line{"Calls", least + phrase(fmt.Sprintf("%d that may have changed something, %d denied, %d that only read", len(r.Acts), len(r.Denied), r.Reads))},
		line{"Tokens", least + phrase(fmt.Sprintf("%d in and %d out", r.Usage.InputTokens, r.Usage.OutputTokens))},
	)
	if r.Unread > 0 {
		out = append(out, line{"Unreadable", phrase(Plural(r.Unread, "entry", "entries"))})
	}
	return out
}

func (p phrases) words(all []string) phrase {
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = string(p.word(w))
	}
	return phrase(strings.Join(out, ", "))
}

func (p phrases) turn(t explain.Turn) block {
	b := block{Name: p.say("%s, %s", t.Turn, day(t.At)), Status: p.word(string(t.Finish)), Rating: "plain"}
	if t.Finish == "" {
		b.Status = "not finished"
	}
	for _, in := range t.Inputs {
		from := p.quote(in.From.String())
		if in.From.String() == "" {
			from = p.word(string(in.Origin))
		}
		b.Lines = append(b.Lines, line{from, p.quote(in.Text)})
	}
	if t.Answer != "" {
		b.Lines = append(b.Lines, line{"the model", p.quote(t.Answer)})
	}
	return b
}

// act says briefly what a call did, and why it could run.
func (p phrases) act(c explain.Call) block {
	b := block{Name: p.say("%s in %s (%s)", c.Tool, c.Turn, c.Place), Status: "no result", Rating: "plain"}
	if c.Status != "" {
		b.Status, b.Rating = phrase(Safe(outcomeOf(c.Status))), map[string]string{"ok": "good"}[c.Status.Public()]
		if b.Rating == "" {
			b.Rating = "bad"
		}
	}
	args := c.Written
	if len(c.Ran) > 0 {
		args = c.Ran
	}
	b.Lines = append(b.Lines, line{"Arguments", p.args(args)})
	if len(c.Ran) > 0 {
		b.Lines = append(b.Lines, line{"Instead of", p.args(c.Written)})
	}
	b.Lines = append(b.Lines, line{"Decision", p.reason(c)})
	if n := len(c.Attempts); n > 0 {
		a := c.Attempts[n-1]
		where := p.say("%s, %s", day(a.At), p.writer(a.Writer))
		if byWorker(a) {
			where += ", queue " + p.word(a.Queue)
		}
		if a.N > 1 {
			where += phrase(fmt.Sprintf(", attempt %d", a.N))
		}
		b.Lines = append(b.Lines, line{"Ran", where})
	}
	for _, r := range c.Results {
		text := p.say("%s (entry %d), %s", r.Status, r.Seq, p.keyOf(r.Worker, r.Runner))
		if r.Text != "" {
			text += ": " + p.quote(r.Text)
		}
		b.Lines = append(b.Lines, line{"Result", text})
		if len(r.Changed) > 0 {
			b.Lines = append(b.Lines, line{"Changed", p.quote(strings.Join(r.Changed, ", "))})
		}
	}
	return b
}

// reason says briefly why a call could run, or was denied.
func (p phrases) reason(c explain.Call) phrase {
	var out []string
	for _, q := range c.Questions {
		d := q.Decision
		if d == nil || d.Outcome == events.Moot {
			continue
		}
		text := p.say("%s by %s", d.Outcome, p.by(d.Decider))
		switch {
		case d.Outcome != events.Approved && d.Outcome != events.Denied:
			text = p.say("%s without a decision", d.Outcome)
		case d.Grant != "":
			text += ", in advance"
		}
		if d.Reason != "" {
			text += ", because " + p.quote(d.Reason)
		}
		out = append(out, string(text))
	}
	for _, h := range c.Hooks {
		if h.Hook != "" {
			out = append(out, string(p.say("the hook %s: %s, because %s", h.Hook, h.Action, p.quote(h.Reason))))
		}
	}
	n := len(c.Attempts)
	switch {
	case n == 0 && len(out) == 0 && len(c.Results) > 0:
		out = append(out, "the core: "+string(p.quote(c.Results[0].Text)))
	case n == 0:
	case c.Attempts[n-1].Unrestricted:
		out = append(out, "nothing restricted it")
	case len(c.Attempts[n-1].Because) == 0 && len(out) == 0:
		out = append(out, string(notRecorded))
	}
	if n > 0 {
		for _, g := range c.Attempts[n-1].Because {
			if whose := map[events.GroundKind]phrase{events.ByPolicy: "policy", events.ByRule: "session", events.ByFlag: "turn"}[g.By]; whose != "" {
				out = append(out, string(p.say("the %s's rule %s (%s)", whose, g.Name, g.Action)))
			}
		}
	}
	return phrase(strings.Join(out, "; "))
}
