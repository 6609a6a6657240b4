package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

func TestTheFirstMatchingRouteOfASessionApplies(t *testing.T) {
	t.Parallel()
	cat := catalog(t, "box_open", "box_burn", "lamp", "odd")
	routes := []events.RouteRule{
		{Tool: "odd", Route: "sideways"},
		{Tool: "*_open", Route: content.Foreground},
		{Tool: "box_*", Route: content.DetachSoon, DetachAfter: time.Second},
		{Tool: "*", Route: content.Background},
	}
	for name, want := range map[string]content.Routing{
		"box_open": {Route: content.Foreground},
		"box_burn": {Route: content.DetachSoon, DetachAfter: time.Second},
		"lamp":     {Route: content.Background},
		"odd":      {},
		"unknown":  {},
	} {
		got := cat.Route(content.ToolCall{Name: name}, routes)
		if got.Route != want.Route || got.DetachAfter != want.DetachAfter {
			t.Errorf("%s: %q after %v, want %q after %v", name, got.Route, got.DetachAfter, want.Route, want.DetachAfter)
		}
	}
}

func TestCallsOfAReplyAreRoutedByTheSession(t *testing.T) {
	t.Parallel()
	m := modeltest.NewFake("m", func(context.Context, model.Request) (model.Reply, error) {
		return modeltest.Calls(content.ToolCall{Name: "lamp", Input: json.RawMessage(`{"n":1}`)}), nil
	})
	e := loop.CallModel{
		ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1},
		Routes:    []events.RouteRule{{Tool: "lamp", Route: content.Background}},
	}
	rep, ok := engine.NewRunner(engine.Config{}).CallModel(t.Context(), e, m, &engine.View{Session: "s", Catalog: catalog(t, "lamp")}, func(events.Event) {}).(commands.ReportReply)
	if !ok || len(rep.Routing) != 1 || rep.Routing[0].Route != content.Background || rep.Routing[0].Queue != "r" {
		t.Errorf("report = %+v", rep)
	}
}
