package actor_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

// publish stores a message as any sender of a report can.
func (w *world) publish(subject, data string, headers ...string) {
	w.T.Helper()
	msg := &nats.Msg{Subject: subject, Data: []byte(data), Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		msg.Header.Set(headers[i], headers[i+1])
	}
	if _, err := w.Connect().RequestMsgWithContext(w.Ctx, msg); err != nil {
		w.T.Fatal(err)
	}
}

// The worker of a call sends what no node may decode. The call fails with an error that names the limit.
// It is not dispatched again, and no other report is read for it.
func TestAReportBeyondTheLimitsFailsItsCall(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("ab", 32)
	for what, says := range map[string]string{
		"a blob of 2.6 GB": "2600000000 bytes, at most 134217728",
		"no command":       "malformed msgpack",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			spec := tool.Spec{Name: "echo", Effects: content.ReadOnly}
			w.workerOf(spec, nil)
			n := w.node("n1")
			s := w.Start("s", oneCall)
			w.submit(s, "go")
			got := w.handed(turnlogtest.Queue)
			ticket := got.Header.Get("Turnlog-Ticket")
			for _, ticket := range []string{"", "forged", ticket} {
				headers := []string{}
				if ticket != "" {
					headers = append(headers, "Turnlog-Ticket", ticket)
				}
				if what == "no command" {
					w.publish("turnlog.cmd.s.report", "nonsense", headers...)
					continue
				}
				w.publish("$O.TURNLOG_BLOBS.M."+base64.URLEncoding.EncodeToString([]byte(name)), fmt.Sprintf(
					`{"name":%q,"bucket":"TURNLOG_BLOBS","nuid":"zeros","size":2600000000,"chunks":20000}`, name))
				w.publish("turnlog.cmd.s.report", "", append(headers, "Turnlog-Blob", name)...)
			}
			if err := got.Ack(); err != nil {
				t.Fatal(err)
			}
			w.finish(s)
			results := turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s")
			if len(results) != 1 || results[0].Result.Code != "bad_report" || !strings.Contains(results[0].Result.Text(), says) {
				t.Errorf("%s: results %+v, want one that says %q", what, results, says)
			}
			if d := turnlogtest.Facts[events.ToolDispatched](w.Deployment, "s"); len(d) != 1 {
				t.Errorf("%s: dispatched %d times", what, len(d))
			}
			n.Drain(t)
		})
	}
}

// A wake without a command costs two reads: nothing is written, and nothing else of the session is read.
func TestAUselessWakeWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		w.finish(s)
		w.Until("s", events.KindParked)
		before := len(w.Records("s"))
		for range 20 {
			for _, id := range []content.SessionID{"s", "none"} {
				if err := w.Cell.Runs().Wake(w.Ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(time.Second)
			for _, id := range []content.SessionID{"s", "none"} {
				if held, err := w.tokens(id); held || err != nil {
					t.Errorf("%s has a token: %v, %v", id, held, err)
				}
			}
		}
		if after := len(w.Records("s")); after != before {
			t.Errorf("wakes wrote %d entries", after-before)
		}
		w.submit(s, "again")
		w.finish(s)
		n.Drain(t)
	})
}
