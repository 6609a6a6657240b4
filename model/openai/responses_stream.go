package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// Names of custom parts. They hold output items that only this provider has, unchanged.
const (
	customPrefix   = Provider + "."
	compactionPart = customPrefix + "compaction"
)

// commentary is the phase of messages before the final answer.
const commentary = "commentary"

// responseStream builds a reply from the events of Responses.
type responseStream struct {
	m     *Model
	reply *provider.Reply

	outputs  []*output
	finished content.FinishReason // empty: not complete
	refused  bool
}

// responseEvent has the relevant fields of all events.
type responseEvent struct {
	Type         string          `json:"type"`
	OutputIndex  int             `json:"output_index"`
	ContentIndex int             `json:"content_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        string          `json:"delta"`
	Item         json.RawMessage `json:"item"`
	Response     *response       `json:"response"`
}

// response is the whole response, as in its first and last events.
type response struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Error      json.RawMessage   `json:"error"`
	Usage      *responseUsage    `json:"usage"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

type responseUsage struct {
	Input        int64 `json:"input_tokens"`
	Output       int64 `json:"output_tokens"`
	InputDetails struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (s *responseStream) Event(_ string, data []byte) (bool, error) {
	var e responseEvent
	if !lenient(data, &e) {
		return false, provider.Malformed("malformed event", data)
	}
	switch e.Type {
	case "response.output_item.added":
		_, err := s.begin(e.OutputIndex, e.Item)
		return false, err
	case "response.output_item.done":
		return false, s.done(e.OutputIndex, e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		return false, s.text(e)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return false, s.thought(e)
	case "response.function_call_arguments.delta":
		return false, s.arguments(e)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return true, s.close(e.Response)
	case "error":
		return false, parseError(data).failure(0)
	case "": // perhaps a whole response
		return s.plain(data)
	}
	return false, nil // progress or an unknown event
}

// plain handles what is not an event: a whole response or an error.
func (s *responseStream) plain(data []byte) (bool, error) {
	var r response
	if json.Unmarshal(data, &r) == nil && r.Object == "response" {
		return true, s.close(&r)
	}
	return false, parseError(data).failure(0)
}

// close handles the final response.
func (s *responseStream) close(r *response) error {
	if r == nil {
		return provider.Malformed("the final event has no response", nil)
	}
	s.reply.ID, s.reply.Model = r.ID, r.Model
	if u := r.Usage; u != nil {
		s.reply.Usage = content.Usage{
			InputTokens: u.Input, OutputTokens: u.Output, ReasoningTokens: u.OutputDetails.Reasoning,
			CacheReadTokens: u.InputDetails.Cached, CacheWriteTokens: u.InputDetails.Written,
		}
	}
	if r.Status == "failed" || r.Status == "cancelled" {
		return parseError([]byte(`{"error":` + cmp.Or(string(r.Error), "null") + `}`)).failure(0)
	}
	for i, raw := range r.Output {
		if err := s.done(i, raw); err != nil {
			return err
		}
	}
	s.finished = s.reason(r)
	return nil
}

// reason returns why the reply ended.
func (s *responseStream) reason(r *response) content.FinishReason {
	if r.Incomplete != nil && r.Status != "completed" {
		switch {
		case r.Incomplete.Reason == "content_filter":
			return content.Blocked
		case strings.HasPrefix(r.Incomplete.Reason, "max_"): // max_output_tokens, or max_tokens on other servers
			return content.MaxTokens
		}
		return content.Other
	}
	var calls, compactions, rest int
	for _, o := range s.outputs {
		switch {
		case o == nil || o.kind == "reasoning":
		case o.kind == "function_call":
			calls++
		case o.kind == "compaction":
			compactions++
		default:
			rest++
		}
	}
	switch {
	case r.Status == "incomplete":
		return content.Other
	case calls > 0:
		return content.ToolCalls
	case s.refused:
		return content.Blocked
	case compactions > 0 && rest == 0:
		return content.Compaction
	}
	return content.Completed
}

// Reason returns the reason of the final response.
func (s *responseStream) Reason() (content.FinishReason, error) { return s.finished, nil }

// separateAnswer moves the final answer after the commentary to its own item, because the last
// item counts as the answer.
func separateAnswer(items []content.Item) []content.Item {
	if len(items) != 1 {
		return items
	}
	parts := items[0].Parts
	for i, p := range slices.Backward(parts) {
		if noteOf(p).Phase == commentary && i < len(parts)-1 {
			return []content.Item{
				content.NewItem(content.Assistant, slices.Clone(parts[:i+1])...),
				content.NewItem(content.Assistant, slices.Clone(parts[i+1:])...),
			}
		}
	}
	return items
}
