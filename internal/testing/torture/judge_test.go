package torture

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
)

func TestTheLedgerIsComparedWithTheJournal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		says account
		did  runCount
		want string // the invariant; "": none
	}{
		"done once":                {account{toolAdd, true, true}, runCount{times: 1, keys: 1}, ""},
		"lost, and it was run":     {account{toolAdd, true, false}, runCount{times: 1, keys: 1}, ""},
		"lost, and it was not run": {account{toolAdd, true, false}, runCount{}, ""},
		"run twice":                {account{toolAdd, true, true}, runCount{times: 2, keys: 1}, AtMostOnce},
		"in the background, twice": {account{toolLater, true, true}, runCount{times: 2, keys: 1}, AtMostOnce},
		"harmless twice":           {account{toolPut, true, true}, runCount{times: 2, keys: 1}, ""},
		"under two keys":           {account{toolPut, true, true}, runCount{times: 2, keys: 2}, LedgerAgrees},
		"done without a run":       {account{toolRead, true, true}, runCount{}, LedgerAgrees},
		"run without leave":        {account{toolRead, false, false}, runCount{times: 1, keys: 1}, LedgerAgrees},
	} {
		var got []string
		for _, v := range tt.says.against(tt.did) {
			got = append(got, v.Invariant)
		}
		if got := strings.Join(got, ","); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestADeadWorkerDoesNothingMore(t *testing.T) {
	t.Parallel()
	l, dead := newLedger(), make(chan struct{})
	c := tool.Call{Session: "s", ID: "c", Name: toolAdd, IdempotencyKey: "k"}
	if err := l.do(c, dead); err != nil {
		t.Fatal(err)
	}
	close(dead)
	if err := l.do(c, dead); err == nil {
		t.Error("a dead worker ran a call")
	}
	if got := l.all()[callKey{"s", "c"}]; got.times != 1 || got.keys != 1 || got.tool != toolAdd {
		t.Errorf("the ledger says %+v", got)
	}
}

func TestAFollowerSeesEachEntryOnce(t *testing.T) {
	t.Parallel()
	rec := func(seq uint64) journal.Record {
		return journal.Record{Head: journal.Head{Seq: seq, Hash: events.Hash{byte(seq)}}}
	}
	stream := []events.Hash{{1}, {2}, {3}}
	for name, tt := range map[string]struct {
		shown    []uint64
		stream   []events.Hash
		complete bool
		good     bool
	}{
		"all":              {[]uint64{1, 2, 3}, stream, true, true},
		"a part":           {[]uint64{1, 2}, stream, false, true},
		"not yet all":      {[]uint64{1, 2}, stream, true, false},
		"skipped":          {[]uint64{1, 3}, stream, false, false},
		"repeated":         {[]uint64{1, 1}, stream, false, false},
		"not in stream":    {[]uint64{1, 2, 3}, stream[:2], false, false},
		"another than was": {[]uint64{1, 2}, []events.Hash{{1}, {9}}, false, false},
	} {
		var s sightings
		var wrong []string
		for _, seq := range tt.shown {
			wrong = append(wrong, s.add(rec(seq)))
		}
		wrong = append(wrong, s.differs(tt.stream, tt.complete))
		if (strings.Join(wrong, "") == "") != tt.good {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestAWriterNoticesALostAcknowledgedEntry(t *testing.T) {
	t.Parallel()
	w := newWriter("w", newFindings())
	w.promised(journal.Head{Seq: 1, Hash: events.Hash{1}})
	w.promised(journal.Head{Seq: 2, Hash: events.Hash{2}})
	if wrong := w.missing([]events.Hash{{1}, {2}, {3}}); len(wrong) != 0 {
		t.Errorf("missing: %v", wrong)
	}
	for _, stream := range [][]events.Hash{{{1}}, {{1}, {3}}} {
		if wrong := w.missing(stream); len(wrong) != 1 {
			t.Errorf("with %v in the stream: %v", stream, wrong)
		}
	}
}

func TestOnlyWhatARollbackMayHaveLostIsSentAgain(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	g := &site{rollbacks: []rollback{{stream: "INBOX", from: at(100), to: at(200)}, {stream: "NAMED", to: at(200)}}}
	for name, tt := range map[string]struct {
		stream   string
		from, to int
		lost     bool
	}{
		"before the backup":                {"INBOX", 0, 90, false},
		"while the backup was made":        {"INBOX", 90, 110, true},
		"after the backup":                 {"INBOX", 110, 120, true},
		"while it was restored":            {"INBOX", 190, 210, true},
		"after it was restored":            {"INBOX", 210, 220, false},
		"before it was created again":      {"NAMED", 0, 10, true},
		"after it was created again":       {"NAMED", 210, 220, false},
		"in a stream that did not go back": {"RUN", 110, 120, false},
	} {
		if got := g.mayHaveLost(tt.stream, at(tt.from), at(tt.to)); got != tt.lost {
			t.Errorf("%s: lost = %v, want %v", name, got, tt.lost)
		}
	}
}

func TestForgeriesAreFound(t *testing.T) {
	t.Parallel()
	result := func(text string) events.Event {
		return events.ToolResultReceived{Result: content.NewResult("c1", toolAdd, content.StatusOK, text)}
	}
	for name, tt := range map[string]struct {
		entry events.Entry
		want  int
	}{
		"a result":                      {events.Entry{Cause: "result/t1-r1-c1/1", Events: []events.Event{result("done")}}, 0},
		"a forged result":               {events.Entry{Cause: "result/t1-r1-c1/1", Events: []events.Event{result(forged)}}, 1},
		"a command of a hostile sender": {events.Entry{Cause: hostilePrefix + "client/1", Events: []events.Event{events.TurnStarted{}}}, 1},
	} {
		if got := forgeries(tt.entry); len(got) != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A hostile sender that needed more than the permissions of its role would prove nothing.
func TestHostileSendersKeepToTheirRoles(t *testing.T) {
	t.Parallel()
	for _, role := range []admin.Role{admin.RoleClient, admin.RoleWorker} {
		grant := admin.Grant{Namespace: "torture_1", Roles: []admin.Role{role}, Inbox: "inbox"}
		if role == admin.RoleWorker {
			grant.Queue = Queue
		}
		may, err := admin.PermissionsOf(grant)
		if err != nil {
			t.Fatal(err)
		}
		s := &sender{role: role, namespace: grant.Namespace, victim: "t1-1", dice: diceOf(1)}
		for range 20 {
			for _, m := range s.messages() {
				if !slices.ContainsFunc(may.Publish, func(allowed string) bool { return matches(allowed, m.Subject) }) {
					t.Errorf("a %s publishes on %s", role, m.Subject)
				}
			}
		}
		for _, env := range s.huge("own") {
			if lane := commands.LaneOf(env.Command); lane != events.LaneAsk {
				t.Errorf("a client sends %s", lane)
			}
		}
	}
}

// matches reports whether a pattern without ">" matches a subject.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i := range min(len(p), len(s)) {
		if p[i] != s[i] && p[i] != "*" {
			return false
		}
	}
	return len(p) == len(s)
}

func TestRecoveryIsMeasuredToTheNextClaim(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int, evs ...events.Event) journal.Record {
		return journal.Record{Stored: began.Add(time.Duration(ms) * time.Millisecond), Entry: events.Entry{Events: evs}}
	}
	claim := func(node string) events.Event { return events.DriverClaimed{Node: node} }
	lost := []loss{{"n1", began.Add(100 * time.Millisecond)}}
	for name, tt := range map[string]struct {
		records []journal.Record
		want    []time.Duration
	}{
		"taken over":                 {[]journal.Record{at(0, claim("n1")), at(50, events.TurnStarted{}), at(900, claim("n2")), at(950, claim("n3"))}, []time.Duration{800 * time.Millisecond}},
		"of another node":            {[]journal.Record{at(0, claim("n2")), at(900, claim("n3"))}, nil},
		"parked before":              {[]journal.Record{at(0, claim("n1")), at(50, events.Parked{}), at(900, claim("n2"))}, nil},
		"parked with its last word":  {[]journal.Record{at(0, claim("n1")), at(110, events.Parked{}), at(900, claim("n2"))}, nil},
		"a word that was on its way": {[]journal.Record{at(0, claim("n1")), at(110, events.TurnStarted{}), at(300, claim("n2"))}, []time.Duration{200 * time.Millisecond}},
		"begun later":                {[]journal.Record{at(200, claim("n1")), at(300, claim("n2"))}, nil},
	} {
		if diff := cmp.Diff(tt.want, recoveries(tt.records, lost)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, want := recoveryOf([]time.Duration{3e6, 1e6, 2e6}), (Recovery{P50: 2, P99: 2, Max: 3}); got != want {
		t.Errorf("recoveryOf = %+v, want %+v", got, want)
	}
}

func TestTheResultAsJSON(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(Result{Seed: 1, Faults: map[Kind]int{NodeKilled: 2}, Violations: map[string]int{}, Found: []Violation{{}}, Kept: "x"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"seed":1,"faults":{"node_killed":2},"commands":0,"commands_repeated":0,"sessions_finished":0,"sessions_total":0,"sessions_set_aside":0,"entries":0,"calls":0,` +
		`"violations":{},"recovery_ms":{"p50":0,"p99":0,"max":0}}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

func TestInvariantsHaveOneNameEach(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, name := range Invariants() {
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
	}
}
