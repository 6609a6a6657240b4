package anthropic_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/anthropic"
	"github.com/turnlog/turnlog/model/modeltest"
)

// marked lists the breakpoints of a request: tool, system or message number, block
// number, and retention.
func marked(t *testing.T, body []byte) string {
	t.Helper()
	type block struct {
		Mark *struct{ Type, TTL string } `json:"cache_control"`
	}
	var r struct {
		Tools, System []block
		Messages      []struct{ Content []block }
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	var all []string
	list := func(where string, blocks []block) {
		for i, b := range blocks {
			if b.Mark == nil {
				continue
			}
			if b.Mark.Type != "ephemeral" {
				t.Errorf("breakpoint of type %q", b.Mark.Type)
			}
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s/%d %s", where, i, b.Mark.TTL)))
		}
	}
	list("tools", r.Tools)
	list("system", r.System)
	for i, m := range r.Messages {
		list(strconv.Itoa(i), m.Content)
	}
	return strings.Join(all, ", ")
}

// rounds returns a session with one system prompt and some rounds of three items each:
// an assistant item with text and thinking, a result, and user text in two parts.
func rounds(n int) []content.Item {
	items := []content.Item{content.SystemText("careful"), content.UserText("begin")}
	for i := range n {
		id := content.CallID(fmt.Sprintf("call_%d", i))
		items = append(items,
			content.NewItem(content.Assistant,
				content.TextPart("text"),
				content.CallPart(content.ToolCall{ID: id, Name: "read_file"}),
				reasoning("anthropic", "hm", content.Reasoning{Signature: []byte("s")})),
			content.NewItem(content.Tool, content.ResultPart(content.NewResult(id, "read_file", content.StatusOK, "ok"))),
			content.NewItem(content.User, content.TextPart("more"), content.TextPart("and more")),
		)
	}
	return items
}

func TestCacheRequestsSetBreakpoints(t *testing.T) {
	t.Parallel()
	at := func(kind string, item, part int) content.Breakpoint {
		return content.Breakpoint{Kind: kind, Item: item, Part: part}
	}
	request := func(mode, retention string, b ...content.Breakpoint) *content.CacheRequest {
		return &content.CacheRequest{Mode: mode, Retention: retention, Breakpoints: b}
	}
	five := []content.Breakpoint{
		at("tools_end", 0, 0), at("item_end", 0, 0), at("item_end", 1, 0), at("item_end", 3, 0), at("item_end", 4, 0),
	}
	for name, c := range map[string]struct {
		cache  *content.CacheRequest
		config string
		want   string
	}{
		"none":              {nil, "", ""},
		"empty":             {&content.CacheRequest{Key: "k"}, "", ""},
		"disabled":          {request("disabled", "", at("tools_end", 0, 0)), "short", ""},
		"chosen":            {request("best_effort", ""), "", "tools/1, system/0, 2/2, 4/2"},
		"chosen, short":     {request("required", "short"), "", "tools/1 5m, system/0 5m, 2/2 5m, 4/2 5m"},
		"configured":        {nil, "extended", "tools/1 1h, system/0 1h, 2/2 1h, 4/2 1h"},
		"asked first":       {request("best_effort", "short", at("tools_end", 0, 0)), "extended", "tools/1 5m"},
		"without a mode":    {request("", "", at("item_end", 1, 0)), "", "0/0"},
		"end of system":     {request("required", "", at("item_end", 0, 0)), "", "system/0"},
		"a part":            {request("required", "", at("part_end", 4, 0)), "", "2/1"},
		"thinking has none": {request("required", "", at("item_end", 2, 0)), "", "1/1"},
		"twice the same":    {request("required", "", at("item_end", 1, 0), at("part_end", 1, 0)), "", "0/0"},
		"too many":          {request("best_effort", "", five...), "", "system/0, 0/0, 2/0, 2/2"},
		"not there":         {request("best_effort", "", at("item_end", 99, 0), at("item_end", -1, 0), at("tools_end", 0, 0)), "", "tools/1"},
	} {
		r := model.Request{Transcript: rounds(2), Tools: tools(), Cache: c.cache}
		a := sent(t, r, func(cfg *anthropic.Config) { cfg.Cache = c.config })
		if diff := cmp.Diff(c.want, marked(t, a.Body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, c := range map[string]*content.CacheRequest{
		"too many":       request("required", "", five...),
		"not there":      request("required", "", at("item_end", 99, 0)),
		"no such part":   request("required", "", at("part_end", 1, 7)),
		"thinking":       request("required", "", at("part_end", 2, 2)),
		"unknown mode":   request("always", ""),
		"unknown place":  request("best_effort", "", at("start", 0, 0)),
		"unknown length": request("best_effort", "forever"),
	} {
		s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "text")})
		_, err := open(t, s).Call(t.Context(), model.Request{Transcript: rounds(2), Tools: tools(), Cache: c}, func(content.Delta) {})
		if e := modelError(t, err); e.Class != content.ClassInvalid || e.Code != "cache" || len(s.Asked()) != 0 {
			t.Errorf("%s: Call = %v after %d requests", name, e, len(s.Asked()))
		}
	}
}

func TestRequiredCacheNeedsABreakpoint(t *testing.T) {
	t.Parallel()
	r := model.Request{Cache: &content.CacheRequest{Mode: "best_effort"}}
	if got := marked(t, sent(t, r).Body); got != "" {
		t.Errorf("an empty request has breakpoints at %s", got)
	}
	r.Cache.Mode = "required"
	s := modeltest.ServeOne(t, modeltest.Answer{Body: recorded(t, "text")})
	_, err := open(t, s).Call(t.Context(), r, func(content.Delta) {})
	if e := modelError(t, err); e.Code != "cache" {
		t.Errorf("Call = %v", e)
	}
}
