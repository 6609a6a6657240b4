package openai

import (
	"time"

	"github.com/turnlog/turnlog/content"
)

// Response returns the current state of the response.
func (r *Responses) Response() map[string]any {
	out := []object{}
	for _, it := range r.output {
		out = append(out, it.json())
	}
	o := object{
		"id": ID{r.id.Session, r.id.Turn, max(r.turn.Part(), 1)}.String(), "object": "response", "status": r.status, "created_at": seconds(r.created),
		"model": r.model, "output": out, "conversation": object{"id": Conversation(r.id.Session)}, "background": true, "store": true,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{}, "previous_response_id": nil,
		"parallel_tool_calls": true, "temperature": nil, "top_p": nil, "tool_choice": "auto", "tools": []object{}, "usage": nil,
	}
	switch {
	case r.turn.Part() > 1:
		o["previous_response_id"] = ID{r.id.Session, r.id.Turn, r.turn.Part() - 1}.String()
	case r.id.Turn > 1:
		o["previous_response_id"] = ID{r.id.Session, r.id.Turn - 1, 1}.String()
	}
	if r.ended {
		o["usage"] = object{
			"input_tokens": r.usage.InputTokens, "output_tokens": r.usage.OutputTokens, "total_tokens": r.usage.TotalTokens(),
			"input_tokens_details":  object{"cached_tokens": r.usage.CacheReadTokens},
			"output_tokens_details": object{"reasoning_tokens": r.usage.ReasoningTokens},
		}
	}
	switch r.status {
	case incomplete:
		o["incomplete_details"] = object{"reason": incompleteReason(r.reason)}
	case failed:
		e := object{"code": "server_error", "message": "the turn ended: " + string(r.reason)}
		if r.failed != nil {
			e["message"] = r.failed.Code + ": " + r.failed.Message
		}
		o["error"] = e
	}
	return o
}

func incompleteReason(r content.FinishReason) string {
	switch r {
	case content.Blocked:
		return "content_filter"
	case content.MaxTokens:
		return "max_output_tokens"
	case content.Limit:
		return "turnlog_limit"
	default:
		return string(r)
	}
}

// seconds returns a time in the format of these protocols.
func seconds(t content.Time) int64 {
	if t == 0 {
		return 0
	}
	return t.Std().Truncate(time.Second).Unix()
}
