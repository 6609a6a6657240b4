package content

import "testing"

func TestUnpairedReturnsTheFirst(t *testing.T) {
	t.Parallel()
	call := func(ids ...CallID) Item {
		it := NewItem(Assistant)
		for _, id := range ids {
			it.Parts = append(it.Parts, CallPart(ToolCall{ID: id}))
		}
		return it
	}
	result := func(k Kind, id CallID) Item {
		return NewItem(k, ResultPart(ToolResult{CallID: id}))
	}
	for name, tc := range map[string]struct {
		items []Item
		index int
		call  CallID
		ok    bool
	}{
		"none":             {ok: true},
		"paired":           {items: []Item{call("b", "a"), result(Tool, "a"), UserText("x"), result(Tool, "b")}, ok: true},
		"notification":     {items: []Item{call("a"), result(Tool, "a"), result(Notification, "a"), result(Notification, "z")}, ok: true},
		"open":             {items: []Item{call("a", "b"), result(Tool, "b")}, index: 0, call: "a"},
		"first of two":     {items: []Item{call("b"), call("a")}, index: 0, call: "b"},
		"orphan":           {items: []Item{call("a"), result(Tool, "b"), result(Tool, "a")}, index: 1, call: "b"},
		"before":           {items: []Item{result(Tool, "a"), call("a")}, index: 0, call: "a"},
		"two results":      {items: []Item{call("a"), result(Tool, "a"), result(Tool, "a")}, index: 2, call: "a"},
		"made twice":       {items: []Item{call("a"), result(Tool, "a"), call("a"), result(Tool, "a")}, index: 2, call: "a"},
		"open, then twice": {items: []Item{call("a"), call("b"), result(Tool, "b"), result(Tool, "b")}, index: 0, call: "a"},
		"result first":     {items: []Item{NewItem(Assistant, result(Tool, "a").Parts[0], call("a").Parts[0])}, index: 0, call: "a"},
		"both in a part":   {items: []Item{{Kind: Assistant, Parts: []Part{{Call: &ToolCall{ID: "a"}, Result: &ToolResult{CallID: "b"}}}}, result(Tool, "a")}, index: 0, call: "b"},
		"twice at once":    {items: []Item{call("a", "a"), result(Tool, "a")}, index: 0, call: "a"},
	} {
		index, id, problem := Unpaired(tc.items)
		if (problem == "") != tc.ok || index != tc.index || id != tc.call {
			t.Errorf("%s: Unpaired = %d, %s, %q", name, index, id, problem)
		}
	}
}
