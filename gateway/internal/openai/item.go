package openai

import (
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// Server is the MCP server name under which the tools of a deployment appear.
const Server = "turnlog"

// item is an item of a response's output.
type item struct {
	kind   string // message, reasoning, mcp_call or mcp_approval_request
	id     string
	index  int
	status string

	text   strings.Builder  // or arguments
	call   *stream.ToolCall // nil: none
	asked  events.Approval  // for an approval request
	output string
	failed string
}

const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"

	messageKind   = "message"
	reasoningKind = "reasoning"
	callKind      = "mcp_call"
	requestKind   = "mcp_approval_request"
)

// object is a JSON object. Its keys are sorted when it is written.
type object = map[string]any

// newItem returns the item of a part of a reply.
func newItem(p stream.Piece, call *stream.ToolCall) *item {
	it := &item{status: inProgress, call: call}
	prefix := "msg"
	switch p.Kind {
	case content.ToolCallKind:
		it.kind, prefix = callKind, "mcp"
	case content.ReasoningKind:
		it.kind, prefix = reasoningKind, "rs"
	default:
		it.kind = messageKind
	}
	it.id = fmt.Sprintf("%s_%d_%d_%d_%d", prefix, p.Turn.Number(), p.Round, p.Attempt, p.Part)
	return it
}

// asks returns the item of a question.
func asks(a events.Approval) *item {
	return &item{kind: requestKind, id: "mcpr_" + string(a.ID), status: completed, asked: a}
}

// json returns the item in the format for clients.
func (it *item) json() object {
	switch it.kind {
	case callKind:
		o := object{
			"type": callKind, "id": it.id, "server_label": Server, "name": it.call.Tool, "arguments": it.call.Input(), "status": it.status,
			"output": nil, "error": nil, "approval_request_id": nil,
		}
		if it.call.Asked != "" {
			o["approval_request_id"] = "mcpr_" + string(it.call.Asked)
		}
		if it.status == completed {
			o["output"] = it.output
		}
		if it.failed != "" {
			o["error"] = it.failed
		}
		return o
	case requestKind:
		return object{"type": requestKind, "id": it.id, "server_label": Server, "name": it.asked.Tool, "arguments": string(it.asked.Input)}
	case reasoningKind:
		parts := []object{}
		if it.text.Len() > 0 {
			parts = append(parts, object{"type": "reasoning_text", "text": it.text.String()})
		}
		return object{"type": reasoningKind, "id": it.id, "summary": []object{}, "content": parts, "status": it.status}
	}
	parts := []object{}
	if it.text.Len() > 0 || it.status != inProgress {
		parts = append(parts, textPart(it.text.String()))
	}
	return object{"type": messageKind, "id": it.id, "role": "assistant", "content": parts, "status": it.status}
}

func textPart(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []object{}, "logprobs": []object{}}
}
