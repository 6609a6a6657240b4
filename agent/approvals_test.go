package agent_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

func TestApprovalsExpireIfTheConfigurationSaysWhen(t *testing.T) {
	for ttl, want := range map[time.Duration]string{
		0:         "approved",
		time.Hour: "expired",
	} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory()
			d := start(t, agent.Config{
				Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"a"}`)), modeltest.Text("ok")),
				Tools: []tool.Source{echo(t)}, Permissions: asking{}, ApprovalTTL: ttl, Journal: log,
				Input: []content.Item{content.UserText("go")},
			})
			ask := step[*session.ApprovalRequest](t, d)
			if got := ask.ExpiresAt; (got != 0) != (ttl != 0) || ttl != 0 && time.Until(got.Std()) != ttl {
				t.Errorf("with %s it expires at %s", ttl, got.Std())
			}
			<-time.After(100 * time.Hour)
			err := ask.Approve(t.Context())
			if expired := errors.Is(err, session.ErrInvalidState); expired != (ttl != 0) {
				t.Errorf("Approve after a hundred hours, with %s = %v", ttl, err)
			}
			res := step[*session.AfterToolResult](t, d).Results[0]
			if got := recorded[events.ApprovalResolved](t, log, "s")[0]; string(got.Outcome) != want {
				t.Errorf("with %s it was %s: %+v", ttl, got.Outcome, res)
			}
			if ttl != 0 && (res.Status != content.StatusExpired || res.Text() != "Approval expired: no decision within 1h0m0s") {
				t.Errorf("the model was told %+v", res)
			}
		})
	}
	_, err := agent.New(agent.Config{Model: replies(), ApprovalTTL: -1})
	if e, ok := errors.AsType[*agent.ConfigError](err); !ok || e.Field != "ApprovalTTL" {
		t.Errorf("New with a negative time = %v", err)
	}
}
