package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
)

const twoTurns = `
replies:
  - calls: [{name: wait, input: {}}]
  - text: "1: {{(index .Results 0).Text}}"
  - text: "2: woken"
    repeat: true
`

func TestARouteSendsCallsToTheBackground(t *testing.T) {
	t.Parallel()
	url, release := slow(t)
	for session, route := range map[string]string{"background": "wa*=background", "detach": "wa*=detach:10ms"} {
		p := at(t, url, "run", "--session", session, "-o", "json", "--route", "other=foreground", "--route", route, "--model", scripted(t, twoTurns), "hi")
		if code := p.end(t); code != cli.CodeOK {
			t.Fatalf("%s: code %d, err %s", session, code, p.err)
		}
		var r turnReport
		if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil || r.ToolCalls[0].Route != session || !strings.HasPrefix(r.Text, "1: Tool wait is now running in the background.") {
			t.Errorf("%s: report %s, %v", session, p.out, err)
		}
		if all := callsOf(t, url, session); len(all) != 1 || all[0].State != "background" || all[0].Route != session {
			t.Errorf("%s: calls = %+v", session, all)
		}
	}
	release <- struct{}{}
	release <- struct{}{}
	for _, session := range []string{"background", "detach"} {
		awaitEvents(t, url, content.SessionID(session), events.KindTurnStarted, 2)
		if all := callsOf(t, url, session); len(all) != 0 {
			t.Errorf("%s: calls after the outcome = %+v", session, all)
		}
		if out := succeed(t, url, "wait", session); out != "2: woken\n" {
			t.Errorf("%s: wait prints %q", session, out)
		}
	}
}
