package security

import (
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream/tickets"
)

// TestNoReplySetsTheKeyOfTickets has a client direct acknowledgements and replies to the key, which
// its permissions cannot prevent.
func TestNoReplySetsTheKeyOfTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		driver, nc := c.open("driver"), c.connect("client")
		before, err := tickets.Of(t.Context(), driver)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"turnlog.key.tickets", "$KV.TURNLOG_NODES.tickets.key"} {
			for subject, body := range map[string]string{
				"turnlog.run.s":                          "",
				"turnlog.cmd.s.ask":                      "x",
				"$JS.API.STREAM.INFO.TURNLOG_JOURNAL":    "",
				"$JS.API.DIRECT.GET.OBJ_TURNLOG_BLOBS":   `{"last_by_subj":"none"}`,
				"$JS.API.STREAM.MSG.GET.TURNLOG_JOURNAL": `{"last_by_subj":"none"}`,
			} {
				if !c.lets("client", nc, func(nc *nats.Conn) error { return nc.PublishRequest(subject, key, []byte(body)) }) {
					t.Errorf("the client may not publish on %s", subject)
				}
			}
		}
		after, err := tickets.Of(t.Context(), driver)
		if err != nil {
			t.Fatal(err)
		}
		if before.Of("s", "t1-r1-c1", 1) != after.Of("s", "t1-r1-c1", 1) {
			t.Error("the key of tickets has changed")
		}
	})
}
