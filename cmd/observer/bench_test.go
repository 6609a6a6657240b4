//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/tool"
)

// story writes the export of a long journal, entry by entry, in a time that its length does not change.
type story struct {
	b       *testing.B
	keys    []*keys.Signer    // of drivers, which claim the session by turns; none: they sign nothing
	key     *keys.Signer      // of the driver; nil: it signs nothing
	last    map[string]uint64 // by key
	head    journal.Head
	epoch   uint64
	entries int
	turns   int
	items   int // of the transcript
	floor   []journal.Record
	yield   func(journal.Record, error) bool
}

// exported exports a story, signed with the keys of drivers. It returns the file, its number of entries, and the first
// entries.
func exported(b *testing.B, drivers []*keys.Signer, tell func(*story)) (path string, s *story) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "long.jsonl")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	s = &story{b: b, keys: drivers, last: map[string]uint64{}}
	err = audit.Export(f, func(yield func(journal.Record, error) bool) {
		s.yield = yield
		s.claim()
		s.add(events.RunStarted{Config: events.Config{Model: "demo"}})
		tell(s)
	})
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	return path, s
}

// snapshots is how many entries of a session have one snapshot, as for nodes.
const snapshots = 500

// claim begins an epoch of the next driver, which has read the journal from the last snapshot on.
func (s *story) claim() {
	claim := events.DriverClaimed{Epoch: s.epoch + 1, Node: "n1"}
	if len(s.keys) > 0 {
		s.last[s.key.ID()], s.key = s.head.Seq, s.keys[int(s.epoch)%len(s.keys)] //nolint:gosec // few
		claim.Key, claim.Keys = s.key.ID(), 1
		if last := s.last[claim.Key]; last > s.head.Seq-s.head.Seq%snapshots {
			claim.Checked = last
		}
	}
	s.epoch++
	s.add(claim)
}

// add appends an entry.
func (s *story) add(evs ...events.Event) {
	e, payload, next, err := journal.Link(s.head, events.Entry{
		Session: "long", Cause: fmt.Sprint("cmd-", s.entries), At: content.Time(1_700_000_000_000_000_000 + s.entries), Epoch: s.epoch, Events: evs,
	})
	if err != nil {
		s.b.Fatal(err)
	}
	s.head = next
	s.entries++
	r := journal.Record{Head: next, Entry: e, Payload: payload, Signature: s.key.Sign(statement.Entry("turnlog", e.Session, e.Seq, next.Hash))}
	if len(s.floor) < 40_000 { // all of a long turn
		s.floor = append(s.floor, r)
	}
	s.yield(r, nil)
}

// turn is one turn with n calls in its round, each with its question, and one that answers.
func (s *story) turn(n int, asked bool) {
	s.turns++
	turn := content.TurnIDFor(s.turns)
	input := []byte(`{"path":"main.go"}`)
	digest := tool.Digest(input)
	hello := []content.Item{content.UserText("What is in main.go?")}
	ask := func(round int) []events.Event {
		return []events.Event{
			events.RoundStarted{Turn: turn, Round: round},
			events.ModelCallStarted{Turn: turn, Round: round, Attempt: 1, TranscriptLen: s.items},
		}
	}
	reply := func(round int, reason content.FinishReason, parts ...content.Part) []events.Event {
		s.items++
		return []events.Event{
			events.ReplyRecorded{Turn: turn, Round: round, Attempt: 1, FinishReason: reason, Items: []content.Item{content.NewItem(content.Assistant, parts...)}},
			events.UsageUpdated{Turn: turn, Round: round, Source: "model", Usage: content.Usage{InputTokens: 100, OutputTokens: 10}},
		}
	}
	s.items++
	s.add(append([]events.Event{
		events.InputQueued{Items: hello, Origin: events.FromHost, By: "ada"},
		events.InputAccepted{Turn: turn, Items: hello, Origin: events.FromHost},
		events.TurnStarted{Turn: turn},
	}, ask(1)...)...)
	var parts []content.Part
	var requests, questions, dispatches []events.Event
	var decisions []events.ApprovalResolved
	var results []events.ToolResultReceived
	for i := range n {
		call := content.ToolCall{ID: content.CallID(fmt.Sprintf("c%d-%d", s.turns, i)), Name: "fs_read_file", Input: input}
		parts = append(parts, content.CallPart(call))
		call.Place = content.Place(fmt.Sprintf("t%d-r1-c%d", s.turns, i+1))
		requests = append(requests, events.ToolCallRequested{Turn: turn, Round: 1, Call: call, Routing: content.Routing{
			Known: true, Source: "w1", Queue: "default", Effects: content.ReadOnly, Digest: digest,
		}})
		id := content.ApprovalID("a-" + string(call.ID))
		if asked {
			questions = append(questions, events.ApprovalRequired{Approval: events.Approval{
				ID: id, CallID: call.ID, TaskID: call.Place, Turn: turn, Round: 1, Tool: call.Name, Input: input, Digest: digest, RequestKind: "k",
			}})
			decisions = append(decisions, events.ApprovalResolved{Approval: id, Call: call.ID, Outcome: events.Approved, By: "ada", Digest: digest})
		}
		dispatches = append(dispatches, events.ToolDispatched{Call: call.ID, Place: call.Place, Attempt: 1, Queue: "default", Digest: digest})
		results = append(results, events.ToolResultReceived{
			Turn: turn, Round: 1, Attempt: 1, Duration: 12 * time.Millisecond,
			Result: content.NewResult(call.ID, call.Name, content.StatusOK, "package main\n\nfunc main() {}\n"),
		})
	}
	s.add(append(reply(1, content.ToolCalls, parts...), requests...)...)
	if asked {
		s.add(questions...)
		for _, d := range decisions[:n-1] {
			s.add(d)
		}
		s.add(decisions[n-1], dispatches[0])
	} else {
		s.add(dispatches[0])
	}
	for i, r := range results[:n-1] {
		s.add(r, dispatches[i+1])
	}
	s.items += n
	s.add(append([]events.Event{results[n-1], events.RoundFinished{Turn: turn, Round: 1, TranscriptLen: s.items}}, ask(2)...)...)
	usage := content.Usage{InputTokens: 200, OutputTokens: 20}
	s.add(append(reply(2, content.Completed, content.TextPart("A main function that does nothing.")),
		events.RoundFinished{Turn: turn, Round: 2, TranscriptLen: s.items},
		events.TurnFinished{Turn: turn, FinishReason: content.Completed, Rounds: 2, Usage: usage})...)
}

// verifyFloor returns the CPU time that decoding and hashing an entry takes.
func verifyFloor(b *testing.B, records []journal.Record) time.Duration {
	b.Helper()
	const least = 100 * time.Millisecond
	n, before := 0, cpu(b)
	for cpu(b)-before < least {
		for _, r := range records {
			if _, err := events.Decode(r.Payload); err != nil || events.HashOf(r.Payload) != r.Hash {
				b.Fatalf("entry %d: %v", r.Seq, err)
			}
		}
		n += len(records)
	}
	return (cpu(b) - before) / time.Duration(n)
}

// cpu returns the CPU time of the test process so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// program is a built command.
type program string

// verify verifies an export, on one core. It returns the CPU time of the process, and the most memory that it had.
func (p program) verify(b *testing.B, path string, flags ...string) (spent time.Duration, megabytes int64) {
	b.Helper()
	// On Linux, a process begins with the peak of the one that starts it. So this one forgets its own.
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // only Linux has it
	cmd := exec.CommandContext(b.Context(), string(p), append([]string{"verify", "--file", path}, flags...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage) //nolint:forcetypeassert // on unix
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), usage.Maxrss >> 10
}

// built builds the program.
func built(b *testing.B) program {
	b.Helper()
	dir, err := clitest.Build(b.Context(), "./cmd/observer")
	if err != nil {
		b.Fatal(err)
	}
	return program(filepath.Join(dir, "observer"))
}

// BenchmarkVerifyFile runs the program on exported journals. It reports the CPU time of the process without that of its
// start, per entry, and how many times as much that is as decoding and hashing alone take in this process; that of its
// start; and the most memory that the program had.
func BenchmarkVerifyFile(b *testing.B) {
	observer := built(b)
	short, _ := exported(b, nil, func(*story) {})
	for _, c := range []struct {
		name string
		tell func(*story)
	}{
		{"entries=5000", func(s *story) { s.to(5_000) }},
		{"entries=505000", func(s *story) { s.to(505_000) }},
		{"calls=4000", func(s *story) { s.turn(4_000, false) }},
		{"calls=32000", func(s *story) { s.turn(32_000, false) }},
		{"approvals=2000", func(s *story) { s.turn(2_000, true) }},
		{"approvals=16000", func(s *story) { s.turn(16_000, true) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			path, s := exported(b, nil, c.tell)
			var spent, started time.Duration
			var most int64
			for b.Loop() {
				start, _ := observer.verify(b, short)
				took, megabytes := observer.verify(b, path)
				started, spent, most = started+start, spent+took-start, max(most, megabytes)
			}
			each := spent / time.Duration(b.N*s.entries)
			b.ReportMetric(float64(each.Nanoseconds())/1e3, "cpu-µs/entry")
			b.ReportMetric(float64(each)/float64(verifyFloor(b, s.floor)), "x-floor")
			b.ReportMetric(float64(started.Milliseconds())/float64(b.N), "start-ms")
			b.ReportMetric(float64(most), "MB")
		})
	}
}

// BenchmarkVerifySigned runs the program on the same journal without signatures and with them, by turns. It reports the CPU
// time of both, without that of the start, and how much signatures add.
func BenchmarkVerifySigned(b *testing.B) {
	observer := built(b)
	root, err := keys.NewRoot()
	if err != nil {
		b.Fatal(err)
	}
	d := keys.Directory{Cell: "turnlog", Version: 1, At: 1}
	var nodes []*keys.Signer
	for i := range 4 {
		node, err := keys.New()
		if err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, node)
		d.Keys = append(d.Keys, keys.Key{Public: node.Public(), Roles: []keys.Role{keys.Driver}, Name: fmt.Sprint("n", i+1), From: 1})
	}
	raw, err := d.Sign(root)
	if err != nil {
		b.Fatal(err)
	}
	directory := filepath.Join(b.TempDir(), "directory")
	if err := os.WriteFile(directory, raw, 0o600); err != nil {
		b.Fatal(err)
	}
	keysFlags := []string{"--keys", directory, "--keys-root", root.Public(), "--require", "signed"}
	for _, c := range []struct {
		name  string
		turns int // until another driver claims the session; 0: none does
		flags []string
	}{
		{"one-driver", 0, keysFlags},
		{"turns-of-a-driver=64", 64, keysFlags},
		{"turns-of-a-driver=1", 1, keysFlags},
		{"every-signature", 0, append(keysFlags, "--every-signature")},
	} {
		b.Run(c.name, func(b *testing.B) {
			tell := func(s *story) {
				for s.entries < 50_000 {
					if s.turn(2, false); c.turns > 0 && s.turns%c.turns == 0 {
						s.claim()
					}
				}
			}
			plain, s := exported(b, nil, tell)
			signed, _ := exported(b, nodes, tell)
			shortPlain, _ := exported(b, nil, func(*story) {})
			shortSigned, _ := exported(b, nodes, func(*story) {})
			var without, with time.Duration
			for b.Loop() {
				without += observer.since(b, plain, shortPlain)
				with += observer.since(b, signed, shortSigned, c.flags...)
			}
			entries := float64(b.N * s.entries)
			b.ReportMetric(float64(without.Nanoseconds())/1e3/entries, "unsigned-µs/entry")
			b.ReportMetric(float64(with.Nanoseconds())/1e3/entries, "signed-µs/entry")
			b.ReportMetric(100*(float64(with)/float64(without)-1), "%-more")
		})
	}
}

// since returns the CPU time of verifying an export, without that of a short one, which is the start.
func (p program) since(b *testing.B, path, short string, flags ...string) time.Duration {
	b.Helper()
	start, _ := p.verify(b, short, flags...)
	took, _ := p.verify(b, path, flags...)
	return took - start
}

// to tells turns of two calls each until there are n entries.
func (s *story) to(n int) {
	for s.entries < n {
		s.turn(2, false)
	}
}
