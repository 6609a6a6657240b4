package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/schedules"
)

// scheduleRows lists the schedules of a deployment.
func scheduleRows(t *testing.T, url string) (rows []scheduleRow) {
	t.Helper()
	if err := json.Unmarshal([]byte(succeed(t, url, "schedule", "ls", "-o", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// fired records what a firing of a schedule led to, as a node does.
func fired(t *testing.T, url, name string, o schedule.Outcome) {
	t.Helper()
	store := schedules.Of(cellAt(t, url))
	all, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.Created, o.Due, o.Done = time.Now(), time.Now(), true
	for _, one := range all {
		if one.Name == name {
			o.Created = one.Created
		}
	}
	if _, err := store.Record(t.Context(), name, o, 0); err != nil {
		t.Fatal(err)
	}
}

func TestSchedulesAreAddedListedAndRemoved(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{})
	got := succeed(t, url, "schedule", "add", "often", "--every", "2s", "--overlap", "allow", "--model", scripted(t, echo), "hello", "there")
	if !strings.HasPrefix(got, "often is due\n") || !strings.HasSuffix(got, "and so on\n") {
		t.Errorf("add prints %q", got)
	}
	fired(t, url, "often", schedule.Outcome{Result: schedule.Started, Session: "often-1"})
	rows := scheduleRows(t, url)
	if len(rows) != 1 {
		t.Fatalf("ls -o json prints %+v", rows)
	}
	r := rows[0]
	if r.Name != "often" || r.Every != "2s" || r.Text != "hello there" || r.Overlap != schedule.Allow || r.Next == nil || r.Last == nil || r.Last.Result != schedule.Started {
		t.Errorf("ls -o json prints %+v", r)
	}
	if got := succeed(t, url, "schedule", "ls"); !strings.HasPrefix(got, "NAME ") || !strings.Contains(got, "every 2s") || !strings.Contains(got, "started: often-1") {
		t.Errorf("ls prints %q", got)
	}
	if got := succeed(t, url, "schedule", "rm", "often") + succeed(t, url, "schedule", "ls"); got != "" {
		t.Errorf("rm and ls print %q", got)
	}
	p := at(t, url, "schedule", "rm", "often")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "turnlog schedule ls") {
		t.Errorf("rm of nothing exits with %d: %s", code, p.err)
	}
}

func TestScheduledInputArrivesOnTime(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	succeed(t, url, "run", "--session", "s", "--model", scripted(t, echo), "one")
	name := strings.TrimSpace(succeed(t, url, "send", "s", "--in", "1h", "much later"))
	if rows := scheduleRows(t, url); len(rows) != 1 || rows[0].Name != name || rows[0].Session != "s" || rows[0].At == nil || time.Until(*rows[0].At) < 59*time.Minute {
		t.Errorf("ls prints %+v, want %s", rows, name)
	}
	succeed(t, url, "schedule", "rm", name)
	succeed(t, url, "send", "s", "--in", "1s", "two")
	awaitEvents(t, url, "s", events.KindTurnFinished, 2)
	p := at(t, url, "send", "s", "--in", "1h", "--allow", "*", "three")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "--allow") {
		t.Errorf("send --in --allow exits with %d: %s", code, p.err)
	}
}

func TestANameIsTakenUnlessItIsReplaced(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{})
	succeed(t, url, "schedule", "add", "n", "--cron", "@daily", "--tz", "Asia/Tokyo", "--model", "demo", "one")
	p := at(t, url, "schedule", "add", "n", "--cron", "@hourly", "--model", "demo", "two")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "--replace") {
		t.Errorf("a second add exits with %d: %s", code, p.err)
	}
	got := succeed(t, url, "schedule", "add", "n", "--cron", "@hourly", "--replace", "--max-late", "1m", "--session", "s", "--session-later", "-o", "json", "two")
	if !strings.Contains(got, `"cron":"@hourly"`) || !strings.Contains(got, `"session":"s"`) || !strings.Contains(got, `"max_late":"1m0s"`) || strings.Count(got, "T") < 4 {
		t.Errorf("add -o json prints %s", got)
	}
	if rows := scheduleRows(t, url); len(rows) != 1 || rows[0].Cron != "@hourly" || rows[0].Last != nil {
		t.Errorf("ls prints %+v", rows)
	}
}

func TestAScheduleForAMissingSessionIsRefused(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	ghost := at(t, url, "schedule", "add", "n", "--every", "1h", "--session", "ghost", "boo")
	if code := ghost.end(t); code != cli.CodeFailed || !strings.Contains(ghost.err.String(), "session ghost: no such session") || !strings.Contains(ghost.err.String(), "--session-later") {
		t.Errorf("add for a session that is not there = %d %s", code, ghost.err)
	}
	if rows := scheduleRows(t, url); len(rows) != 0 {
		t.Errorf("it was added anyway: %+v", rows)
	}
	succeed(t, url, "run", "--session", "s", "--model", scripted(t, echo), "one")
	succeed(t, url, "schedule", "add", "there", "--every", "1h", "--session", "s", "hello")
	succeed(t, url, "schedule", "rm", "there")

	fired(t, url, "once", schedule.Outcome{Result: schedule.Failed, Detail: "there is no session ghost"})
	if got := succeed(t, url, "schedule", "ls"); !strings.Contains(got, " over ") || !strings.Contains(got, "failed: there is no session ghost") {
		t.Errorf("ls prints %q", got)
	}
	if got := succeed(t, url, "schedule", "rm", "once") + succeed(t, url, "schedule", "ls"); got != "" {
		t.Errorf("rm and ls print %q", got)
	}
}
