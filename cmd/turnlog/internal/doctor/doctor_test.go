package doctor

import (
	"testing"
	"time"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// A clock is compared in the doctor itself: a test cannot have a server with another
// clock than its own.
func TestClocksOfServersAreCompared(t *testing.T) {
	t.Parallel()
	clock := func(ahead, within time.Duration) admin.Clock {
		return admin.Clock{Ahead: ahead, Within: within}
	}
	var d doctor
	d.serverClocks(admin.Inspection{Streams: []admin.StreamState{
		{Name: "JOURNAL", Servers: []string{"n1"}, Clock: clock(-3*time.Second, time.Millisecond)},
		{Name: "INBOX", Servers: []string{"n2"}, Clock: clock(3*time.Second, 2500*time.Millisecond)}, // on a slow connection
		{Name: "RUN", Servers: []string{"n3"}, Clock: clock(900*time.Millisecond, 0)},
		{Name: "TASKS", Err: jetstream.ErrNotProvisioned},
	}})
	if len(d.report.Findings) != 1 || d.report.Findings[0].Check != "clock-skew" {
		t.Fatalf("findings %+v", d.report.Findings)
	}
	f := d.report.Findings[0]
	if f.What != "the clock of server n1 is 3s behind that of this machine" {
		t.Errorf("finding %+v", f)
	}
}
