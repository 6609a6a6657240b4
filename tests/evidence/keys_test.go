package evidence

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/tool"
)

const cell = "turnlog"

// cast are the owners of the keys of a deployment, and its directory.
type cast struct {
	t                     *testing.T
	root                  *keys.Signer
	node, other, ada, gpu *keys.Signer
	stranger              *keys.Signer // in no directory
	dir                   keys.Directory
}

func newCast(t *testing.T) *cast {
	t.Helper()
	root, err := keys.NewRoot()
	if err != nil {
		t.Fatal(err)
	}
	c := &cast{t: t, root: root, dir: keys.Directory{Cell: cell, Version: 1}}
	c.node, c.other = c.add("node-1", keys.Driver), c.add("node-2", keys.Driver)
	c.ada, c.gpu = c.add("ada", keys.Client, keys.Approver), c.add("gpu", keys.Worker)
	if c.stranger, err = keys.New(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cast) add(name string, roles ...keys.Role) *keys.Signer {
	c.t.Helper()
	k, err := keys.New()
	if err != nil {
		c.t.Fatal(err)
	}
	c.dir.Keys = append(c.dir.Keys, keys.Key{Public: k.Public(), Roles: roles, Name: name})
	return k
}

// signedEntries returns the entries with signed acts: the input and the decision by ada, the result by gpu.
func (c *cast) signedEntries() []events.Entry {
	list := entries()
	list[0].Events[0] = events.DriverClaimed{Epoch: 1, Node: "n1", Key: c.node.ID(), Keys: 1}
	in := list[2].Events[0].(events.InputQueued) //nolint:forcetypeassert // see entries
	in.By, in.User = "ada", ""
	list[2].Events[0] = in
	list[2].Events = c.signedBy(c.ada, cell, list[2], commands.SubmitInput{Items: in.Items})
	asked := list[5].Events[0].(events.ApprovalRequired).Approval //nolint:forcetypeassert // likewise
	decided := list[6].Events[0].(events.ApprovalResolved)        //nolint:forcetypeassert // likewise
	decided.By, decided.User = "ada", ""
	list[6].Events[0] = decided
	ran := list[6].Events[1].(events.ToolDispatched) //nolint:forcetypeassert // likewise
	ran.Queue = "q"
	list[6].Events[1] = ran
	list[6].Events = c.signedBy(c.ada, cell, list[6], yes(asked))
	result := list[7].Events[0].(events.ToolResultReceived) //nolint:forcetypeassert // likewise
	result.Signature, result.SignedAt = sign(c.gpu, c.resultOf(result.Result)), signedAt
	list[7].Events[0] = result
	return list
}

const signedAt = content.Time(1e9)

// yes is the decision about a question.
func yes(asked events.Approval) commands.ResolveApproval {
	return commands.ResolveApproval{Approval: asked.ID, Call: asked.CallID, Approve: true, Shown: statement.Shown(asked)}
}

// signedBy returns the events of an entry after what their sender signed.
func (c *cast) signedBy(by *keys.Signer, cell string, e events.Entry, cmd commands.Command) []events.Event {
	c.t.Helper()
	env := commands.Envelope{ID: e.Cause, Session: "s-1", At: e.At, Command: cmd}
	outline, _ := statement.Outline(cmd)
	raw, err := commands.Marshal(outline)
	if err != nil {
		c.t.Fatal(err)
	}
	signed := events.CommandSigned{Command: commands.NameOf(cmd), Said: raw, At: e.At, Signature: by.Sign(statement.Command(cell, env))}
	return append([]events.Event{signed}, e.Events...)
}

func (c *cast) resultOf(r content.ToolResult) []byte {
	return statement.Result(cell, statement.Call{
		Session: "s-1", Call: "c1", Place: "t1-r1-c1", Attempt: 1, Tool: "write", Input: tool.Digest(input),
	}, signedAt, statement.ResultDigest(r))
}

func sign(by *keys.Signer, text []byte) *content.Signature {
	s := by.Sign(text)
	return &s
}

// write chains and signs entries.
func (c *cast) write(list []events.Entry, by *keys.Signer) []journal.Record {
	records := seal(c.t, list)
	for i := range records {
		records[i].Signature = by.Sign(statement.Entry(cell, "s-1", records[i].Seq, records[i].Hash))
	}
	return records
}

// judge verifies an export of the records.
func (c *cast) judge(records []journal.Record, every bool) *verdict.Verdict {
	c.t.Helper()
	raw, err := c.dir.Sign(c.root)
	if err != nil {
		c.t.Fatal(err)
	}
	d, err := keys.Open(raw, c.root.Public())
	if err != nil {
		c.t.Fatal(err)
	}
	who := signed.NewAudit(d, every)
	v, err := audit.VerifyImported(who.Watch(audit.Import(strings.NewReader(join(export(c.t, records))))))
	if err != nil {
		c.t.Fatal(err)
	}
	who.Judge(v)
	return v
}

// forgery changes a signed journal, and is found at an entry.
type forgery struct {
	seq    uint64
	every  bool // found only if every signature is checked
	change func(c *cast, r []journal.Record) []journal.Record
}

func TestEveryForgedSignatureIsFound(t *testing.T) {
	t.Parallel()
	whole := newCast(t)
	for _, every := range []bool{false, true} {
		if v := whole.judge(whole.write(whole.signedEntries(), whole.node), every); v.Exit(verdict.Signed) != verdict.ExitReached {
			t.Fatalf("control: level %s, %v", v.Level, v.Faults)
		}
	}
	for name, f := range merged(forgedEntries(), forgedKeys(), forgedActs()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCast(t)
			records := f.change(c, c.write(c.signedEntries(), c.node))
			if v := c.judge(records, false); f.every && len(v.Faults) > 0 {
				t.Errorf("without every signature: %v", v.Faults)
			}
			v := c.judge(records, f.every)
			first, _ := v.First()
			if first.Kind != verdict.Forged || first.Seq != f.seq || v.Exit(verdict.Chain) != verdict.ExitFault {
				t.Errorf("level %s, %v; want entry %d forged", v.Level, v.Faults, f.seq)
			}
		})
	}
}

func merged(all ...map[string]forgery) map[string]forgery {
	out := map[string]forgery{}
	for _, some := range all {
		maps.Copy(out, some)
	}
	return out
}

// forgedEntries change signatures of entries.
func forgedEntries() map[string]forgery {
	at := func(n int, edit func(c *cast, r []journal.Record, s *content.Signature)) func(*cast, []journal.Record) []journal.Record {
		return func(c *cast, r []journal.Record) []journal.Record {
			edit(c, r, &r[n-1].Signature)
			return r
		}
	}
	strip := func(_ *cast, _ []journal.Record, s *content.Signature) { *s = content.Signature{} }
	other := func(text func(r journal.Record) []byte) func(*cast, []journal.Record, *content.Signature) {
		return func(c *cast, r []journal.Record, s *content.Signature) { *s = c.node.Sign(text(r[8])) }
	}
	return map[string]forgery{
		"entry: the last signature is stripped": {9, false, at(9, strip)},
		"entry: one in the middle is stripped":  {4, false, at(4, strip)},
		"entry: that of the claim is stripped":  {1, false, at(1, strip)},
		"entry: all are stripped": {1, false, func(_ *cast, r []journal.Record) []journal.Record {
			for i := range r {
				r[i].Signature = content.Signature{}
			}
			return r
		}},
		"entry: the last is another entry's":    {9, false, at(9, func(_ *cast, r []journal.Record, s *content.Signature) { *s = r[7].Signature })},
		"entry: one in the middle is another's": {4, true, at(4, func(_ *cast, r []journal.Record, s *content.Signature) { *s = r[4].Signature })},
		"entry: a bit differs":                  {9, false, at(9, func(_ *cast, _ []journal.Record, s *content.Signature) { s.Bytes[7] ^= 1 })},
		"entry: the first half is zero":         {9, false, at(9, func(_ *cast, _ []journal.Record, s *content.Signature) { clear(s.Bytes[:32]) })},
		"entry: it names another driver":        {9, false, at(9, func(c *cast, _ []journal.Record, s *content.Signature) { s.Key = c.other.ID() })},
		"entry: it names a stranger's key":      {9, false, at(9, func(c *cast, _ []journal.Record, s *content.Signature) { s.Key = c.stranger.ID() })},
		"entry: another driver signed it": {9, false, at(9, func(c *cast, r []journal.Record, s *content.Signature) {
			*s = c.other.Sign(statement.Entry(cell, "s-1", 9, r[8].Hash))
		})},
		"entry: of another cell":                  {9, false, at(9, other(func(r journal.Record) []byte { return statement.Entry("other", "s-1", 9, r.Hash) }))},
		"entry: of another session":               {9, false, at(9, other(func(r journal.Record) []byte { return statement.Entry(cell, "s-2", 9, r.Hash) }))},
		"entry: of another number":                {9, false, at(9, other(func(r journal.Record) []byte { return statement.Entry(cell, "s-1", 8, r.Hash) }))},
		"entry: of another hash":                  {9, false, at(9, other(func(journal.Record) []byte { return statement.Entry(cell, "s-1", 9, events.Hash{1}) }))},
		"entry: over a snapshot of the same head": {9, false, at(9, other(func(r journal.Record) []byte { return []byte("turnlog-snapshot/v1\n" + r.Hash.String()) }))},
		"entry: the end is written again":         {9, false, rewriteEnd},
	}
}

// rewriteEnd replaces the last entry by one that the writer cannot sign.
func rewriteEnd(c *cast, r []journal.Record) []journal.Record {
	list := c.signedEntries()
	done := list[8].Events[0].(events.ReplyRecorded) //nolint:forcetypeassert // see entries
	done.Items = []content.Item{content.AssistantText("nothing was written")}
	list[8].Events[0] = done
	again := c.write(list, c.node)
	again[8].Signature = r[8].Signature
	return again
}

// forgedKeys change the owners of the keys.
func forgedKeys() map[string]forgery {
	directory := func(edit func(k []keys.Key, at content.Time)) func(*cast, []journal.Record) []journal.Record {
		return func(c *cast, r []journal.Record) []journal.Record {
			edit(c.dir.Keys, r[0].Entry.At)
			return r
		}
	}
	by := func(who func(c *cast) *keys.Signer) func(*cast, []journal.Record) []journal.Record {
		return func(c *cast, _ []journal.Record) []journal.Record {
			list := c.signedEntries()
			list[0].Events[0] = events.DriverClaimed{Epoch: 1, Node: "n1", Key: who(c).ID(), Keys: 1}
			return c.write(list, who(c))
		}
	}
	return map[string]forgery{
		"key: all by a stranger":      {9, false, by(func(c *cast) *keys.Signer { return c.stranger })},
		"key: all by a person":        {9, false, by(func(c *cast) *keys.Signer { return c.ada })},
		"key: all by a worker":        {9, false, by(func(c *cast) *keys.Signer { return c.gpu })},
		"key: revoked before":         {9, false, directory(func(k []keys.Key, at content.Time) { k[0].Revoked = &keys.Revocation{At: at} })},
		"key: revoked in the middle":  {9, false, directory(func(k []keys.Key, at content.Time) { k[0].Revoked = &keys.Revocation{At: at + 4} })},
		"key: not valid yet":          {9, false, directory(func(k []keys.Key, at content.Time) { k[0].From = at.Add(time.Hour) })},
		"key: of another role":        {9, false, directory(func(k []keys.Key, _ content.Time) { k[0].Roles = []keys.Role{keys.Client} })},
		"key: not in the directory":   {9, false, func(c *cast, r []journal.Record) []journal.Record { c.dir.Keys = c.dir.Keys[1:]; return r }},
		"key: the approver's revoked": {7, false, directory(func(k []keys.Key, at content.Time) { k[2].Revoked = &keys.Revocation{At: at + 5} })},
		"key: the approver no longer": {7, false, directory(func(k []keys.Key, _ content.Time) { k[2].Roles = []keys.Role{keys.Client} })},
		"key: the client's not there": {3, false, directory(func(k []keys.Key, _ content.Time) { k[2].Roles = []keys.Role{keys.Approver} })},
		"key: the worker's of no one": {8, false, func(c *cast, r []journal.Record) []journal.Record { c.dir.Keys = c.dir.Keys[:3]; return r }},
		"key: the directory of another cell": {3, false, func(c *cast, r []journal.Record) []journal.Record {
			c.dir.Cell = "other"
			return r
		}},
		"key: unsigned although it is required": {1, false, func(c *cast, _ []journal.Record) []journal.Record {
			c.dir.Require(keys.Driver, 1)
			return seal(c.t, entries())
		}},
		"key: an unsigned decision although it is required": {7, false, func(c *cast, _ []journal.Record) []journal.Record {
			c.dir.Require(keys.Approver, 1)
			list := c.signedEntries()
			list[6].Events = list[6].Events[1:]
			return c.write(list, c.node)
		}},
	}
}

// edited1 returns an event with a change.
func edited1[E events.Event](ev events.Event, edit func(*E)) events.Event {
	e := ev.(E) //nolint:forcetypeassert // see entries
	edit(&e)
	return e
}

// forgedActs are journals in which the driver wrote something else than people and workers signed.
func forgedActs() map[string]forgery {
	lie := func(edit func(c *cast, e []events.Entry)) func(*cast, []journal.Record) []journal.Record {
		return func(c *cast, _ []journal.Record) []journal.Record {
			list := c.signedEntries()
			edit(c, list)
			return c.write(list, c.node)
		}
	}
	decision := func(edit func(c *cast, e *events.ApprovalResolved)) func(*cast, []journal.Record) []journal.Record {
		return lie(func(c *cast, e []events.Entry) {
			e[6].Events[1] = edited1(e[6].Events[1], func(r *events.ApprovalResolved) { edit(c, r) })
		})
	}
	sent := func(edit func(c *cast, e events.Entry, asked events.Approval) []events.Event) func(*cast, []journal.Record) []journal.Record {
		return lie(func(c *cast, e []events.Entry) {
			asked := e[5].Events[0].(events.ApprovalRequired).Approval //nolint:forcetypeassert // see entries
			e[6].Events = e[6].Events[1:]
			e[6].Events = edit(c, e[6], asked)
		})
	}
	other := json.RawMessage(`{"path":"/etc/passwd"}`)
	return map[string]forgery{
		"act: other input": {3, false, lie(func(_ *cast, e []events.Entry) {
			hi := []content.Item{content.UserText("delete it")}
			e[2].Events[1] = edited1(e[2].Events[1], func(q *events.InputQueued) { q.Items = hi })
			e[3].Events[0] = edited1(e[3].Events[0], func(q *events.InputAccepted) { q.Items = hi })
		})},
		"act: input of another command":     {3, false, lie(func(_ *cast, e []events.Entry) { e[2].Cause = "another" })},
		"act: a decision for always":        {7, false, decision(func(_ *cast, r *events.ApprovalResolved) { r.Always = true })},
		"act: a decision with a reason":     {7, false, decision(func(_ *cast, r *events.ApprovalResolved) { r.Reason = "it is safe" })},
		"act: a decision of another person": {7, false, decision(func(_ *cast, r *events.ApprovalResolved) { r.By = "alice" })},
		"act: a decision of another user":   {7, false, decision(func(_ *cast, r *events.ApprovalResolved) { r.User = "alice" })},
		"act: a decision by a worker": {7, false, sent(func(c *cast, e events.Entry, a events.Approval) []events.Event {
			return c.signedBy(c.gpu, cell, e, yes(a))
		})},
		"act: a decision by a driver": {7, false, sent(func(c *cast, e events.Entry, a events.Approval) []events.Event {
			return c.signedBy(c.node, cell, e, yes(a))
		})},
		"act: a decision by a stranger": {7, false, sent(func(c *cast, e events.Entry, a events.Approval) []events.Event {
			return c.signedBy(c.stranger, cell, e, yes(a))
		})},
		"act: a decision in another cell": {7, false, sent(func(c *cast, e events.Entry, a events.Approval) []events.Event {
			return c.signedBy(c.ada, "other", e, yes(a))
		})},
		"act: a denial that approves": {7, false, sent(func(c *cast, e events.Entry, a events.Approval) []events.Event {
			return c.signedBy(c.ada, cell, e, commands.ResolveApproval{Approval: a.ID, Call: a.CallID, Shown: statement.Shown(a)})
		})},
		"act: a decision without what was shown": {7, false, sent(func(c *cast, e events.Entry, a events.Approval) []events.Event {
			return c.signedBy(c.ada, cell, e, commands.ResolveApproval{Approval: a.ID, Call: a.CallID, Approve: true})
		})},
		"act: input that was signed as a decision": {7, false, sent(func(c *cast, e events.Entry, _ events.Approval) []events.Event {
			return c.signedBy(c.ada, cell, e, commands.Close{})
		})},
		"act: a decision that is signed after it": {7, false, sent(func(c *cast, e events.Entry, a events.Approval) []events.Event {
			out := c.signedBy(c.ada, cell, e, yes(a))
			return append(append([]events.Event{}, out[1:]...), out[0])
		})},
		"act: a decision of another time": {7, false, lie(func(_ *cast, e []events.Entry) {
			e[6].Events[0] = edited1(e[6].Events[0], func(s *events.CommandSigned) { s.At++ })
		})},
		"act: a decision of tomorrow": {7, false, sent(func(c *cast, e events.Entry, a events.Approval) []events.Event {
			e.At = e.At.Add(24 * time.Hour)
			return c.signedBy(c.ada, cell, e, yes(a))
		})},
		"act: options that were not given": {3, false, lie(func(_ *cast, e []events.Entry) {
			e[2].Events[1] = edited1(e[2].Events[1], func(q *events.InputQueued) { q.Options = &events.TurnOptions{Sequential: true} })
		})},
		"act: more input than was signed": {3, false, lie(func(_ *cast, e []events.Entry) {
			more := edited1(e[2].Events[1], func(q *events.InputQueued) { q.Items = []content.Item{content.UserText("delete it")} })
			e[2].Events = append(e[2].Events, more)
			e[3].Events[0] = edited1(e[3].Events[0], func(a *events.InputAccepted) { a.Items = append(a.Items, content.UserText("delete it")) })
			e[3].Events[3] = edited1(e[3].Events[3], func(m *events.ModelCallStarted) { m.TranscriptLen++ })
			e[7].Events[1] = edited1(e[7].Events[1], func(r *events.RoundFinished) { r.TranscriptLen++ })
			e[7].Events[3] = edited1(e[7].Events[3], func(m *events.ModelCallStarted) { m.TranscriptLen++ })
			e[8].Events[2] = edited1(e[8].Events[2], func(r *events.RoundFinished) { r.TranscriptLen++ })
		})},
		"act: input of a person as that of a verifier": {3, false, func(c *cast, _ []journal.Record) []journal.Record {
			c.dir.Require(keys.Client, 1)
			list := c.signedEntries()
			config := events.Config{Model: "demo"}
			list[1].Events = []events.Event{events.RunStarted{Config: config, By: "ada"}}
			list[1].Events = c.signedBy(c.ada, cell, list[1], commands.OpenSession{Config: config})
			list[2].Events = []events.Event{edited1(list[2].Events[1], func(q *events.InputQueued) { q.Origin = events.FromVerifier })}
			return c.write(list, c.node)
		}},
		"act: the same input twice": {4, false, func(c *cast, _ []journal.Record) []journal.Record {
			list := c.signedEntries()
			list = append(list[:3:3], append([]events.Entry{list[2]}, list[3:]...)...)
			return c.write(list, c.node)
		}},
		"act: a result that no worker signed": {8, false, func(c *cast, _ []journal.Record) []journal.Record {
			c.dir.Require(keys.Worker, 1)
			list := c.signedEntries()
			list[7].Events[0] = edited1(list[7].Events[0], func(r *events.ToolResultReceived) { r.Signature, r.Attempt = nil, 0 })
			return c.write(list, c.node)
		}},
		"act: input from nowhere": {3, false, func(c *cast, _ []journal.Record) []journal.Record {
			c.dir.Require(keys.Client, 1)
			list := c.signedEntries()
			config := events.Config{Model: "demo"}
			list[1].Events = []events.Event{events.RunStarted{Config: config, By: "ada"}}
			list[1].Events = c.signedBy(c.ada, cell, list[1], commands.OpenSession{Config: config})
			list[2].Events = []events.Event{edited1(list[2].Events[1], func(q *events.InputQueued) { q.Origin = events.FromParent })}
			return c.write(list, c.node)
		}},
		"act: a decision about another question": {7, false, lie(func(_ *cast, e []events.Entry) {
			e[5].Events[0] = edited1(e[5].Events[0], func(a *events.ApprovalRequired) { a.Approval.Summary = "read a file" })
		})},
		"act: a decision about other arguments": {7, false, lie(func(_ *cast, e []events.Entry) {
			d := tool.Digest(other)
			e[4].Events[0] = edited1(e[4].Events[0], func(r *events.ReplyRecorded) {
				r.Items = []content.Item{content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: "c1", Name: "write", Input: other}))}
			})
			e[4].Events[2] = edited1(e[4].Events[2], func(r *events.ToolCallRequested) { r.Call.Input, r.Routing.Digest = other, d })
			e[5].Events[0] = edited1(e[5].Events[0], func(a *events.ApprovalRequired) { a.Approval.Input, a.Approval.Digest = other, d })
			e[6].Events[1] = edited1(e[6].Events[1], func(r *events.ApprovalResolved) { r.Digest = d })
			e[6].Events[2] = edited1(e[6].Events[2], func(r *events.ToolDispatched) { r.Digest = d })
		})},
		"act: another result": {8, true, lie(func(_ *cast, e []events.Entry) {
			e[7].Events[0] = edited1(e[7].Events[0], func(r *events.ToolResultReceived) {
				r.Result = content.NewResult("c1", "write", content.StatusOK, "all is well")
			})
		})},
		"act: a result of another attempt": {8, true, lie(func(c *cast, e []events.Entry) {
			e[7].Events[0] = edited1(e[7].Events[0], func(r *events.ToolResultReceived) {
				of := statement.Call{Session: "s-1", Call: "c1", Place: "t1-r1-c1", Attempt: 2, Tool: "write", Input: tool.Digest(input)}
				r.Signature = sign(c.gpu, statement.Result(cell, of, signedAt, statement.ResultDigest(r.Result)))
			})
		})},
		"act: a result signed by a person": {8, true, lie(func(c *cast, e []events.Entry) {
			e[7].Events[0] = edited1(e[7].Events[0], func(r *events.ToolResultReceived) { r.Signature = sign(c.ada, c.resultOf(r.Result)) })
		})},
	}
}
