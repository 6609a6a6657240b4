package openai

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Chat projects a turn onto a chat completion. The protocol cannot take text back: when an attempt at a reply fails,
// the next one continues the text if it begins with it, and otherwise the completion ends with an error.
type Chat struct {
	id      string
	turn    content.TurnID
	model   string
	created content.Time

	text   strings.Builder
	round  int    // of the last text
	sent   int    // bytes of text sent before the attempt in flight
	again  string // text that the next attempt must repeat
	reason string
	usage  content.Usage
	failed *Error
	over   bool
}

// NewChat returns the projection of a turn.
func NewChat(s content.SessionID, turn int, model string) *Chat {
	return &Chat{id: "chatcmpl-" + string(s) + "." + strconv.Itoa(turn), turn: content.TurnIDFor(turn), model: model}
}

// Show takes an event of the stream, yields the chunks that follow from it, and reports whether the turn is over.
func (c *Chat) Show(ev stream.Event, yield func(map[string]any)) (over bool) {
	switch {
	case c.over:
	case ev.Entry != nil:
		for _, e := range ev.Entry.Entry.Events {
			c.fold(e, ev.Entry.Entry.At, yield)
		}
		if d, gone := deletedBy(ev); gone && !c.over {
			c.fail(NewError(http.StatusGone, deleted, "", d))
		}
	case ev.Piece != nil && ev.Piece.Turn == c.turn && ev.Piece.Op == content.AppendPart:
		switch ev.Piece.Kind {
		case content.TextKind:
			c.say(ev.Piece.Round, ev.Piece.Text, yield)
		case content.ReasoningKind:
			yield(c.chunk(object{"reasoning_content": ev.Piece.Text}, nil))
		default: // a chat shows only calls that the client itself would run
		}
	case ev.Void != nil && ev.Void.Turn == c.turn && ev.Void.Round == c.round:
		c.again = c.text.String()[c.sent:]
	}
	return c.over
}

// say handles text of a reply. The reply of each round is a separate paragraph.
func (c *Chat) say(round int, text string, yield func(map[string]any)) {
	if c.again != "" {
		switch {
		case strings.HasPrefix(c.again, text):
			c.again = c.again[len(text):]
			return
		case !strings.HasPrefix(text, c.again):
			c.fail(NewError(http.StatusBadGateway, "void", "", "a model call failed after part of its reply was sent, and its retry replied differently: "+
				"read the reply from the session"))
			return
		}
		text, c.again = text[len(c.again):], ""
		if text == "" {
			return
		}
	}
	if round != c.round {
		if c.sent, c.round = c.text.Len(), round; c.sent > 0 {
			text = "\n\n" + text
			c.sent += 2
		}
	}
	c.text.WriteString(text)
	yield(c.chunk(object{"content": text}, nil))
}

func (c *Chat) fail(e *Error) { c.failed, c.over = e, true }

func (c *Chat) fold(ev any, at content.Time, yield func(map[string]any)) {
	switch e := ev.(type) {
	case events.TurnStarted:
		if e.Turn == c.turn {
			c.created = at
			yield(c.chunk(object{"role": "assistant", "content": ""}, nil))
		}
	case events.RunFailed:
		if e.Turn == c.turn {
			c.failed = NewError(http.StatusBadGateway, e.Code, "", "the turn failed: "+e.Message)
		}
	case events.TurnFinished:
		if e.Turn != c.turn {
			return
		}
		c.over, c.usage = true, e.Usage
		switch e.FinishReason {
		case content.MaxTokens, content.Limit:
			c.reason = "length"
		case content.Blocked:
			c.reason = "content_filter"
		case content.Completed, content.ToolCalls:
			c.reason = "stop"
		default:
			if c.failed == nil {
				c.failed = NewError(http.StatusBadGateway, string(e.FinishReason), "", "the turn ended: "+string(e.FinishReason))
			}
			return
		}
		c.failed = nil
		yield(c.chunk(object{}, c.reason))
	}
}

func (c *Chat) chunk(delta object, reason any) map[string]any {
	return object{
		"id": c.id, "object": "chat.completion.chunk", "created": seconds(c.created), "model": c.model,
		"choices": []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}},
	}
}

// Failed returns why there is no complete reply, or nil.
func (c *Chat) Failed() *Error { return c.failed }

// Usage returns the chunk with the usage of the turn.
func (c *Chat) Usage() map[string]any {
	return object{"id": c.id, "object": "chat.completion.chunk", "created": seconds(c.created), "model": c.model, "choices": []object{}, "usage": c.used()}
}

func (c *Chat) used() object {
	return object{
		"prompt_tokens": c.usage.InputTokens, "completion_tokens": c.usage.OutputTokens, "total_tokens": c.usage.TotalTokens(),
		"prompt_tokens_details":     object{"cached_tokens": c.usage.CacheReadTokens},
		"completion_tokens_details": object{"reasoning_tokens": c.usage.ReasoningTokens},
	}
}

// Completion returns the whole chat completion.
func (c *Chat) Completion() map[string]any {
	return object{
		"id": c.id, "object": "chat.completion", "created": seconds(c.created), "model": c.model, "usage": c.used(),
		"choices": []object{{
			"index": 0, "logprobs": nil, "finish_reason": c.reason,
			"message": object{"role": "assistant", "content": c.text.String(), "refusal": nil},
		}},
	}
}
