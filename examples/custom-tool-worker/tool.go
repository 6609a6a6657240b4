package main

import (
	"context"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// text is the input of the tool. The model sees the names and descriptions.
type text struct {
	Text string `json:"text" jsonschema:"The text whose words are counted."`
}

// wordCount is the tool. It does not know where it runs.
func wordCount() (tool.Tool, error) {
	return tool.Func("word_count", "Counts the words of a text.", func(_ context.Context, in text) (int, error) {
		return len(strings.Fields(in.Text)), nil
	}, tool.ReadOnly())
}
