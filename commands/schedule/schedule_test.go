package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/internal/wire"
)

func nightly() schedule.Schedule {
	return schedule.Schedule{
		Name: "nightly", Timing: schedule.Timing{Cron: "0 2 * * *", Zone: "Europe/Berlin"},
		Overlap: schedule.Allow, Late: time.Hour, By: "ops", Created: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Commands: []commands.Command{
			commands.OpenSession{Config: events.Config{Agent: &events.AgentRef{Name: "reviewer"}}},
			commands.StartTask{Spec: events.TaskSpec{Goal: "review"}},
		},
	}
}

func TestSchedulesAndOutcomesSurviveEncoding(t *testing.T) {
	t.Parallel()
	once := nightly()
	once.Timing, once.Session = schedule.Timing{At: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}, "s"
	once.Commands = []commands.Command{commands.SubmitInput{Items: []content.Item{content.UserText("hi")}, OnBusy: events.Queue}}
	every := nightly()
	every.Timing = schedule.Timing{Every: time.Hour}
	for _, want := range []schedule.Schedule{nightly(), once, every} {
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := schedule.Decode(b)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Decode: %v (-want +got):\n%s", err, diff)
		}
	}
	o := schedule.Outcome{Created: nightly().Created, Due: time.Unix(9, 0).UTC(), Fired: 4, Result: schedule.Failed, Detail: "d", Session: "s", Done: true}
	b, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := schedule.DecodeOutcome(b); err != nil || got != o {
		t.Errorf("DecodeOutcome = %+v, %v", got, err)
	}
}

func TestSchedulesDescribeThemselves(t *testing.T) {
	t.Parallel()
	input := nightly()
	input.Session, input.Overlap = "s", ""
	input.Timing = schedule.Timing{At: time.Date(2026, 5, 6, 7, 8, 8, 1, time.UTC)}
	input.Commands = []commands.Command{commands.SubmitInput{Items: []content.Item{content.UserText("hi")}}}
	every := schedule.Schedule{Timing: schedule.Timing{Every: time.Hour}}
	for _, tt := range []struct {
		s                         schedule.Schedule
		timing, pattern, text, to string
		overlap                   schedule.Overlap
		agent                     bool
	}{
		{nightly(), "0 2 * * * Europe/Berlin", "0 0 2 * * *", "review", "nightly-20261122T010000Z", schedule.Allow, true},
		{input, "at 2026-05-06T07:08:09Z", "@at 2026-05-06T07:08:09Z", "hi", "s", schedule.Skip, false},
		{every, "every 1h0m0s", "@every 1h0m0s", "", "-20261122T010000Z", schedule.Skip, false},
	} {
		due := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
		if got := tt.s.Timing.String(); got != tt.timing {
			t.Errorf("Timing = %q, want %q", got, tt.timing)
		}
		if got := tt.s.Timing.Pattern(); got != tt.pattern {
			t.Errorf("Pattern = %q, want %q", got, tt.pattern)
		}
		if got := tt.s.SessionAt(due); tt.s.Text() != tt.text || string(got) != tt.to || tt.s.Overlaps() != tt.overlap || (tt.s.Agent() != nil) != tt.agent {
			t.Errorf("%s: text %q, session %s, overlap %s, agent %v", tt.timing, tt.s.Text(), got, tt.s.Overlaps(), tt.s.Agent())
		}
	}
}

func TestCommandsOfAFiringAreAlwaysTheSame(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	got := nightly().Envelopes(due)
	if len(got) != 2 || got[0].ID != "schedule/nightly/1767225600000/1795309200/1" || got[1].ID == got[0].ID ||
		got[0].Session != "nightly-20261122T010000Z" || got[0].By != "schedule/nightly" {
		t.Errorf("Envelopes = %+v", got)
	}
	if diff := cmp.Diff(got, nightly().Envelopes(due.In(time.FixedZone("x", 3600)))); diff != "" {
		t.Errorf("the same instant in another zone differs:\n%s", diff)
	}
	again := nightly()
	again.Created = again.Created.Add(time.Second)
	if other := again.Envelopes(due); other[0].ID == got[0].ID {
		t.Error("a later schedule of the same name sends the same commands")
	}
}

func TestInvalidSchedulesAreRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*schedule.Schedule){
		"name":               func(s *schedule.Schedule) { s.Name = "a b" },
		"1 to 64":            func(s *schedule.Schedule) { s.Name = strings.Repeat("x", 65) },
		"session":            func(s *schedule.Schedule) { s.Session = "a.b" },
		"overlap":            func(s *schedule.Schedule) { s.Overlap = "replace" },
		"negative":           func(s *schedule.Schedule) { s.Late = -1 },
		"created":            func(s *schedule.Schedule) { s.Created = time.Time{} },
		"no commands":        func(s *schedule.Schedule) { s.Commands = nil },
		"must open":          func(s *schedule.Schedule) { s.Commands = s.Commands[1:] },
		"only a new session": func(s *schedule.Schedule) { s.Session = "s" },
		"only once":          func(s *schedule.Schedule) { s.Commands = append(s.Commands, s.Commands[0]) },
		"resolve_approval":   func(s *schedule.Schedule) { s.Commands = append(s.Commands, commands.ResolveApproval{Approve: true}) },
		"allow_tools":        func(s *schedule.Schedule) { s.Commands = append(s.Commands, commands.AllowTools{Tools: []string{"*"}}) },
		"report_result":      func(s *schedule.Schedule) { s.Commands = append(s.Commands, commands.ReportResult{}) },
		"not send cancel":    func(s *schedule.Schedule) { s.Commands = append(s.Commands, commands.Cancel{}) },
		"give one of":        func(s *schedule.Schedule) { s.Timing.Every = time.Hour },
		"whole seconds":      func(s *schedule.Schedule) { s.Timing = schedule.Timing{Every: 1500 * time.Millisecond} },
		"at least 1s":        func(s *schedule.Schedule) { s.Timing = schedule.Timing{Every: -time.Second} },
		"time zone needs":    func(s *schedule.Schedule) { s.Timing = schedule.Timing{Every: time.Hour, Zone: "UTC"} },
		`"Nowhere"`:          func(s *schedule.Schedule) { s.Timing.Zone = "Nowhere" },
		`"Local"`:            func(s *schedule.Schedule) { s.Timing.Zone = "Local" },
		"never fires":        func(s *schedule.Schedule) { s.Timing.Cron = "0 0 31 11 *" },
		"above maximum (31)": func(s *schedule.Schedule) { s.Timing.Cron = "0 0 32 * *" },
		"a crontab expressi": func(s *schedule.Schedule) { s.Timing = schedule.Timing{} },
	} {
		s := nightly()
		change(&s)
		if err := s.Check(); !errors.Is(err, schedule.ErrBadSchedule) || !strings.Contains(err.Error(), want) {
			t.Errorf("Check = %v, want ErrBadSchedule with %q", err, want)
		}
	}
	large := nightly()
	large.Commands[1] = commands.StartTask{Spec: events.TaskSpec{Goal: strings.Repeat("x", schedule.MaxSize)}}
	if _, err := large.Encode(); !errors.Is(err, schedule.ErrBadSchedule) {
		t.Errorf("Encode of a large one = %v, want ErrBadSchedule", err)
	}
	for _, b := range [][]byte{nil, {0xc1}, []byte("{}"), {0x80}} {
		if _, err := schedule.Decode(b); !errors.Is(err, schedule.ErrBadSchedule) {
			t.Errorf("Decode of %q = %v, want ErrBadSchedule", b, err)
		}
	}
}

func TestIntervalsAreCountedFromTheLastTime(t *testing.T) {
	t.Parallel()
	every := schedule.Timing{Every: 3 * time.Second}
	added := time.Date(2026, 1, 1, 0, 0, 0, 600e6, time.UTC)
	var got []string
	for at, n := added, 0; n < 3; n++ {
		at = every.Next(added, at)
		got = append(got, at.Format("05.000"))
	}
	if diff := cmp.Diff([]string{"04.000", "07.000", "10.000"}, got); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
}

// The server may be a second early, or hours late.
func TestAFiringHasOneTime(t *testing.T) {
	t.Parallel()
	two := time.Date(2026, 1, 2, 1, 0, 0, 0, time.UTC) // in Berlin
	for _, off := range []time.Duration{-time.Second, -time.Millisecond, 0, 250 * time.Millisecond, time.Minute, 23 * time.Hour} {
		if got := nightly().Timing.Due(two.Add(off)); !got.Equal(two) {
			t.Errorf("a firing %v off was due at %v, want %v", off, got, two)
		}
	}
	at := schedule.Timing{At: two.Add(-time.Millisecond)}
	if got := at.Due(two.Add(time.Hour)); !got.Equal(two) {
		t.Errorf("a one-time firing was due at %v, want %v", got, two)
	}
	every := schedule.Timing{Every: time.Minute}
	for off, want := range map[time.Duration]bool{0: true, -time.Hour: true, time.Second: true, 57 * time.Second: true, 58 * time.Second: false, time.Minute: false} {
		if got := every.Repeats(two.Add(off), two); got != want {
			t.Errorf("a firing %v after the last one repeats it: %t, want %t", off, got, want)
		}
	}
	if !nightly().Timing.Repeats(two, two) || nightly().Timing.Repeats(two.Add(time.Minute), two) {
		t.Error("firings of a crontab expression are the same only at the same time")
	}
}

func TestMissedFiringsAreOverdue(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cron, every, once := schedule.Timing{Cron: "0 2 * * *"}, schedule.Timing{Every: time.Hour}, schedule.Timing{At: day}
	for _, tt := range []struct {
		timing     schedule.Timing
		since, now time.Duration
		want       time.Duration // 0: nothing
	}{
		{cron, 0, time.Hour, 0},
		{cron, 0, 2 * time.Hour, 2 * time.Hour},
		{cron, 2 * time.Hour, 25 * time.Hour, 0},
		{cron, 2 * time.Hour, 75 * time.Hour, 74 * time.Hour},
		{every, time.Minute, time.Hour, 0},
		{every, time.Minute, 120 * time.Minute, 0},
		{every, time.Minute, 121 * time.Minute, 121 * time.Minute},
		{every, time.Minute, 200 * time.Minute, 181 * time.Minute},
		{once, 0, time.Hour, 0},
	} {
		var want time.Time
		if tt.want != 0 {
			want = day.Add(tt.want)
		}
		if got := tt.timing.Overdue(day.Add(tt.since), day.Add(tt.now)); !got.Equal(want) {
			t.Errorf("%v since %v at %v: overdue is %v, want %v", tt.timing, tt.since, tt.now, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	s := schedule.Schedule{Name: "s", Timing: schedule.Timing{Every: time.Hour}}
	if b, err := s.Encode(); err == nil {
		f.Add(b)
	}
	f.Add([]byte{0x81, 0xa1, 'c', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s schedule.Schedule
		var err error
		took := allocated.By(func() {
			s, err = schedule.Decode(b)
			_, _ = schedule.DecodeOutcome(b)
		})
		if took > 4*wire.Memory(len(b), wire.Command)+allocated.Slack { // the schedule, its commands, and the same as an outcome
			t.Fatalf("decoding %d bytes took %d", len(b), took)
		}
		if err == nil {
			_, _ = s.Encode()
		}
	})
}
