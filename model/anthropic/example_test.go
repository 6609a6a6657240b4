package anthropic_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/anthropic"
)

// stream is the API's response for a short text.
const stream = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-opus-5","usage":{"input_tokens":12,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Forty-two."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":6}}

event: message_stop
data: {"type":"message_stop"}

`

func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream)
	}))
	defer api.Close()

	m, err := anthropic.New(anthropic.Config{
		Model:    "claude-opus-5",
		APIKey:   "sk-ant-0",
		BaseURL:  api.URL, // leave it out for the real one
		Thinking: "adaptive",
		Effort:   "high",
		Cache:    "short",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := model.Request{Transcript: []content.Item{content.UserText("What is six times seven?")}}
	reply, err := m.Call(context.Background(), r, func(d content.Delta) {
		if d.Op == content.AppendPart {
			fmt.Println("…", d.Text)
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Items[0].Text(), reply.FinishReason, reply.Usage.TotalTokens())
	// Output:
	// … Forty-two.
	// Forty-two. completed 18
}
