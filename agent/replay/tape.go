package replay

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// tape has the calls of a journal. It asks the recorded questions about a call and returns its recorded result. A session
// uses it as permissions and as the wrapper of its model and tools.
type tape struct {
	cfg   Config
	calls map[content.CallID]*call
	same  map[string]*same // by tool and arguments, see keyOf

	recorded, ran, missing atomic.Int64

	mu sync.Mutex // guards the counts of same, and what was asked
}

// same has the calls of a journal with the same tool and arguments, in order.
type same struct {
	calls  []*call
	judged int // how many Evaluate has judged; it runs before a call has its ID
	ended  int // how many CallTool has ended
}

// call is a call of the journal.
type call struct {
	name      string
	input     []byte
	asked     []events.Approval
	decisions []events.ApprovalResolved
	result    *content.ToolResult // nil: the journal ends before it
	patched   bool                // this is how an approved call ran, with other arguments
}

// refused reports whether the session itself answered the call, for example because a limit was reached. The replay's
// session does so again.
func (c *call) refused() bool {
	return c.result != nil && c.result.Reported(c.result.CallID, c.name).Status != c.result.Status
}

func newTape(cfg Config) *tape {
	return &tape{cfg: cfg, calls: map[content.CallID]*call{}, same: map[string]*same{}}
}

// keyOf returns the key of calls with the same tool and arguments.
func keyOf(name string, input []byte) string { return name + "\x00" + string(tool.Canonical(input)) }

func (t *tape) put(name string, input []byte, c *call) {
	key := keyOf(name, input)
	if t.same[key] == nil {
		t.same[key] = &same{}
	}
	t.same[key].calls = append(t.same[key].calls, c)
}

// add reads the next event of the journal.
func (t *tape) add(ev events.Event) {
	of := func(id content.CallID) *call {
		if c := t.calls[id]; c != nil {
			return c
		}
		return &call{}
	}
	switch ev := ev.(type) { //nolint:gochecksumtype // the others are about no call, or say how it ran
	case events.ToolCallRequested:
		c := &call{name: ev.Call.Name, input: ev.Call.Input}
		t.calls[ev.Call.ID] = c
		t.put(c.name, ev.Call.Input, c)
	case events.ApprovalRequired:
		c := of(ev.Approval.CallID)
		c.asked = append(c.asked, ev.Approval)
	case events.ApprovalResolved:
		c := of(ev.Call)
		c.decisions = append(c.decisions, ev)
		if len(ev.Input) > 0 {
			ran := &call{name: c.name, input: ev.Input, patched: true}
			t.calls[ev.Call] = ran // its result is the next
			t.put(c.name, ev.Input, ran)
		}
	case events.ToolResultReceived:
		of(ev.Result.CallID).result = &ev.Result // the last result counts: in the background it follows a placeholder
	}
}

// passed counts an event that the replay and the journal share, so that its question or result is not used for a later
// call.
func (t *tape) passed(ev events.Event) {
	switch ev := ev.(type) { //nolint:gochecksumtype // the others are about no call, or say how it ran
	case events.ToolCallRequested:
		t.next(ev.Call.Name, ev.Call.Input, func(s *same) *int { return &s.judged })
	case events.ToolResultReceived:
		if c := t.calls[ev.Result.CallID]; c != nil && !ev.Late {
			t.next(c.name, c.input, func(s *same) *int { return &s.ended })
		}
	}
}

// next returns the next call with the same tool and arguments, or nil. count selects the counter: calls judged or ended.
func (t *tape) next(name string, input []byte, count func(*same) *int) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.same[keyOf(name, input)]
	if s == nil {
		return nil
	}
	n := count(s)
	if *n == len(s.calls) {
		return nil
	}
	*n++
	return s.calls[*n-1]
}

// Evaluate asks the recorded questions about a recorded call. It asks about every live call that does more than read.
func (t *tape) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	was := t.next(r.Call.Name, r.Call.Input, func(s *same) *int { return &s.judged })
	if was == nil {
		if t.cfg.Live && r.Spec.Effects != content.ReadOnly {
			return tool.Verdict{Ruling: tool.Ask, Reason: content.PolicyRequiresConfirmation, Summary: "run " + r.Call.Name + ", which is not recorded"}, nil
		}
		return tool.Verdict{Ruling: tool.Allow}, nil
	}
	var ask tool.Verdict
	for _, a := range slices.Backward(was.asked) {
		v := tool.Verdict{Ruling: tool.Ask, RequestKind: a.RequestKind, Scope: a.Scope, Reason: a.Reason, Summary: a.Summary, Metadata: a.Metadata}
		if ask.Ruling == tool.Ask {
			v.Also = append(v.Also, ask.Questions()...)
		}
		ask = v
	}
	if ask.Ruling != tool.Ask {
		ask.Ruling = tool.Allow
	}
	return ask, nil
}

// decision returns the recorded decision of a question. It returns errUndecided if the journal ends before the decision,
// and false for a live call.
func (t *tape) decision(a events.Approval) (d session.Decision, recorded bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.same[keyOf(a.Tool, a.Input)]
	if s == nil {
		return d, false, nil
	}
	for _, was := range s.calls[:s.judged] {
		for i, asked := range was.asked {
			if asked.RequestKind != a.RequestKind || asked.Scope != a.Scope {
				continue
			}
			of := slices.IndexFunc(was.decisions, func(r events.ApprovalResolved) bool { return r.Approval == asked.ID })
			if of < 0 {
				return d, true, errUndecided
			}
			r := was.decisions[of]
			was.asked = slices.Delete(was.asked, i, i+1)
			return session.Decision{
				Call: a.CallID, Approve: r.Outcome == events.Approved, Always: r.Always, Input: r.Input, Reason: r.Reason, By: r.Decider(),
			}, true, nil
		}
	}
	return d, false, nil
}

// CallModel calls the model.
func (t *tape) CallModel(
	ctx context.Context, r model.Request, next func(context.Context, model.Request) (model.Reply, error),
) (model.Reply, error) {
	return next(ctx, r)
}

// CallTool returns the recorded result of a call, or runs it.
func (t *tape) CallTool(
	ctx context.Context, c content.ToolCall, next func(context.Context, content.ToolCall) (content.ToolResult, error),
) (content.ToolResult, error) {
	ended := func(s *same) *int { return &s.ended }
	was := t.next(c.Name, c.Input, ended)
	for was != nil && was.refused() {
		was = t.next(c.Name, c.Input, ended)
	}
	switch {
	case was != nil && was.result == nil:
		return content.NewResult(c.ID, c.Name, content.StatusUnknown, "The journal ends before this call"), nil
	case was != nil:
		t.recorded.Add(1)
		r := *was.result
		r.CallID = c.ID
		return r, nil
	case t.cfg.Live:
		t.ran.Add(1)
		return next(ctx, c)
	}
	t.missing.Add(1)
	return content.NewResult(c.ID, c.Name, content.StatusError, "Not run: this call is not in the journal that is replayed"), nil
}

// source returns a placeholder for each tool of the session, since the replay may not have the tool.
func (t *tape) source() tool.Source {
	var names []string
	for _, c := range t.calls {
		unknown := c.result != nil && c.result.Code == tool.CodeNotFound
		if !unknown && !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	slices.Sort(names)
	return placeholders(names)
}

// placeholders is a source of tools whose names are all that is known.
type placeholders []string

// Name returns the name of the source.
func (placeholders) Name() string { return "recorded" }

// Tools lists the tools.
func (p placeholders) Tools(context.Context) ([]tool.Tool, error) {
	var out []tool.Tool
	for _, name := range p {
		out = append(out, placeholder(name))
	}
	return out, nil
}

// placeholder is a tool that only has recorded results.
type placeholder string

// Spec returns only the name. A journal has no descriptions and schemas.
func (p placeholder) Spec() tool.Spec {
	return tool.Spec{Name: string(p), Description: "A tool of the session that is replayed.", Effects: content.ReadOnly}
}

// Call fails: there is nothing to run.
func (p placeholder) Call(context.Context, tool.Call) (tool.Output, error) {
	return tool.Output{}, tool.Failure(tool.CodeNotFound, "%s is not here: it only has recorded results", p)
}
