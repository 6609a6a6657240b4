package main

import (
	"context"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// text is what the tool takes; the model is shown the names and the descriptions.
type text struct {
	Text string `json:"text" jsonschema:"The text whose words are counted."`
}

// wordCount is the tool. It knows nothing of where it runs.
func wordCount() (tool.Tool, error) {
	return tool.Func("word_count", "Counts the words of a text.", func(_ context.Context, in text) (int, error) {
		return len(strings.Fields(in.Text)), nil
	}, tool.ReadOnly())
}
