package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/events"
)

func TestRulesOfTheSessionAreNotRepeated(t *testing.T) {
	t.Parallel()
	session := events.Config{
		Rules:  []events.Rule{{Tool: "a", Action: events.RuleAllow}, {Tool: "b", Action: events.RuleDeny}},
		Routes: []events.RouteRule{{Tool: "a", Route: "background"}},
	}
	same := flags.Rules{List: session.Rules, Routes: session.Routes}
	if o, tools := same.Options(session), same.Allowed(session); o != nil || tools != nil {
		t.Errorf("options %+v, allowed %v, want none", o, tools)
	}
	other := flags.Rules{List: session.Rules[:1]}
	if o, tools := other.Options(session), other.Allowed(session); o != nil || len(tools) != 1 {
		t.Errorf("options %+v, allowed %v, want no options", o, tools)
	}
}

func TestTimesOfDayAreTheNextOnes(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("here", 2*3600)
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, zone)
	for text, want := range map[string]string{
		"13:30":                "2030-01-31T13:30:00+02:00",
		"12:00":                "2030-02-01T12:00:00+02:00",
		"07:00:05":             "2030-02-01T07:00:05+02:00",
		"2030-03-01 07:00":     "2030-03-01T07:00:00+02:00",
		"2030-03-01T07:00":     "2030-03-01T07:00:00+02:00",
		"2030-03-01T07:00:00Z": "2030-03-01T07:00:00Z",
	} {
		var f flags.Timing
		cmd := &cobra.Command{}
		f.Register(cmd)
		if err := cmd.ParseFlags([]string{"--at", text}); err != nil {
			t.Fatal(err)
		}
		if at, err := f.When(now); err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%q is %s, %v; want %s", text, at.Format(time.RFC3339), err, want)
		}
	}
}
