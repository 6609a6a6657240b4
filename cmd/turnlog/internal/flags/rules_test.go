package flags

import (
	"testing"

	"github.com/turnlog/turnlog/events"
)

func TestRulesOfTheSessionAreNotRepeated(t *testing.T) {
	t.Parallel()
	session := events.Config{
		Rules:  []events.Rule{{Tool: "a", Action: events.RuleAllow}, {Tool: "b", Action: events.RuleDeny}},
		Routes: []events.RouteRule{{Tool: "a", Route: "background"}},
	}
	same := Rules{List: session.Rules, Routes: session.Routes}
	if o, tools := same.Options(session), same.Allowed(session); o != nil || tools != nil {
		t.Errorf("options %+v, allowed %v, want none", o, tools)
	}
	other := Rules{List: session.Rules[:1]}
	if o, tools := other.Options(session), other.Allowed(session); o != nil || len(tools) != 1 {
		t.Errorf("options %+v, allowed %v, want no options", o, tools)
	}
}
