package compact_test

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/policy/compact"
)

// Failed calls are dropped first, then old items; a call and its result stay
// together.
func Example() {
	c, err := compact.New(compact.Config{
		Trigger: compact.Trigger{Items: 6, Window: 200_000},
		Strategy: compact.Pipeline{Steps: []compact.Strategy{
			compact.DropReasoning{},
			compact.DropFailedResults{},
			compact.KeepRecent{Turns: 2},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	look := content.ToolCall{ID: "c1", Name: "fs_read_file", Input: []byte(`{"path":"a.txt"}`)}
	m := extension.Mutation{Point: extension.BeforeModel, Items: []content.Item{
		content.SystemText("Be brief."),
		content.UserText("Hello!"),
		content.AssistantText("Hello."),
		content.UserText("What is in a.txt?"),
		content.NewItem(content.Assistant, content.CallPart(look)),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("c1", look.Name, content.StatusError, "no such file"))),
		content.AssistantText("There is no a.txt."),
		content.UserText("What else is there?"),
	}}
	if err := c.Mutate(context.Background(), &m); err != nil {
		fmt.Println(err)
		return
	}
	for _, it := range m.Items {
		fmt.Println(it.Kind, it.Text())
	}
	fmt.Println(m.OldTokens, "tokens were", m.NewTokens)
	// Output:
	// system Be brief.
	// user What is in a.txt?
	// assistant There is no a.txt.
	// user What else is there?
	// 64 tokens were 34
}
