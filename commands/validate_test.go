package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func TestRetriesNeedAPauseAndAnEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retry events.Retry
		ok    bool
	}{
		"the defaults":        {ok: true},
		"the bounds":          {events.Retry{ModelAttempts: 1000, Backoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond, ModelPatience: 7 * 24 * time.Hour}, true},
		"no pause":            {events.Retry{Backoff: 1}, false},
		"no pause at most":    {events.Retry{MaxBackoff: 1}, false},
		"a negative pause":    {events.Retry{Backoff: -time.Second}, false},
		"no end":              {events.Retry{ModelAttempts: 1 << 40}, false},
		"negative attempts":   {events.Retry{LostAttempts: -1}, false},
		"too patient":         {events.Retry{ModelPatience: 30 * 24 * time.Hour}, false},
		"a negative patience": {events.Retry{ModelPatience: -1}, false},
	} {
		err := Validate(OpenSession{Config: events.Config{Retry: c.retry}})
		if r, refused := errors.AsType[*Rejection](err); refused == c.ok || refused && r.Reason != ReasonInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every command of a session matches its lists against each tool on offer.
func TestTheListsOfASessionAreBounded(t *testing.T) {
	t.Parallel()
	rule, route := events.Rule{Tool: "*", Action: events.RuleAsk}, events.RouteRule{Tool: "*"}
	for name, c := range map[string]struct {
		config events.Config
		reason string
	}{
		"none": {},
		"full": {config: events.Config{
			Tools: slices.Repeat([]string{"!a*"}, 1000), Rules: slices.Repeat([]events.Rule{rule}, 1000), Routes: slices.Repeat([]events.RouteRule{route}, 1000),
			Hooks: make([]events.Registration, 1000), Mutators: make([]events.Registration, 1000),
		}},
		"patterns":     {events.Config{Tools: slices.Repeat([]string{"a"}, 1001)}, ReasonTooLarge},
		"rules":        {events.Config{Rules: slices.Repeat([]events.Rule{rule}, 1001)}, ReasonTooLarge},
		"routes":       {events.Config{Routes: slices.Repeat([]events.RouteRule{route}, 1001)}, ReasonTooLarge},
		"hooks":        {events.Config{Hooks: make([]events.Registration, 1001)}, ReasonTooLarge},
		"mutators":     {events.Config{Mutators: make([]events.Registration, 1001)}, ReasonTooLarge},
		"long pattern": {events.Config{Tools: []string{strings.Repeat("*", 257)}}, ReasonInvalidInput},
		"no pattern":   {events.Config{Tools: []string{""}}, ReasonInvalidInput},
		"odd rule":     {events.Config{Rules: []events.Rule{{Tool: "a", Action: "maybe"}}}, ReasonInvalidInput},
	} {
		err := CheckConfig(c.config)
		if r, ok := errors.AsType[*Rejection](err); (err == nil) != (c.reason == "") || ok && r.Reason != c.reason {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
	}
}

func TestAnOpenRoundHasALimitOfCalls(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{content.MaxCalls: "", content.MaxCalls + 1: ReasonTooLarge} {
		var parts []content.Part
		for i := range n {
			parts = append(parts, content.CallPart(content.ToolCall{ID: content.CallID(fmt.Sprint("c", i)), Name: "echo"}))
		}
		err := Validate(OpenSession{Transcript: []content.Item{content.UserText("go"), content.NewItem(content.Assistant, parts...)}, Resume: true, From: "s"})
		if r, ok := errors.AsType[*Rejection](err); (err == nil) != (want == "") || ok && r.Reason != want {
			t.Errorf("%d calls: %v, want %q", n, err, want)
		}
	}
}
