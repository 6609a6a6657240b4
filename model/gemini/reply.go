package gemini

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// customPart is the name of parts of an unknown kind.
const customPart = name + ".part"

// answer is a reply under construction.
type answer struct {
	reply   *provider.Reply
	finish  genai.FinishReason
	blocked bool // the prompt was
}

// Event implements provider.Handler. Each event is a piece of the response, or an error.
func (a *answer) Event(_ string, data []byte) (bool, error) {
	var failed struct{ Error *genai.APIError }
	var piece genai.GenerateContentResponse
	if err := errors.Join(json.Unmarshal(data, &failed), json.Unmarshal(data, &piece)); err != nil {
		return false, err
	}
	if failed.Error != nil {
		return false, apiFailure(*failed.Error)
	}
	return false, a.take(&piece)
}

// take handles one piece of the response.
func (a *answer) take(c *genai.GenerateContentResponse) error {
	a.reply.Model, a.reply.ID = cmp.Or(c.ModelVersion, a.reply.Model), cmp.Or(c.ResponseID, a.reply.ID)
	if u := c.UsageMetadata; u != nil {
		a.reply.Usage = usage(u)
	}
	if f := c.PromptFeedback; f != nil && f.BlockReason != "" && f.BlockReason != genai.BlockedReasonUnspecified {
		a.blocked = true
	}
	if len(c.Candidates) == 0 || c.Candidates[0] == nil {
		return nil
	}
	first := c.Candidates[0]
	if first.FinishReason != "" && first.FinishReason != genai.FinishReasonUnspecified {
		a.finish = first.FinishReason
	}
	if first.Content == nil {
		return nil
	}
	for _, p := range first.Content.Parts {
		if err := a.part(p); err != nil {
			return err
		}
	}
	return nil
}

// usage converts the totals so far. Thoughts count as output.
func usage(u *genai.GenerateContentResponseUsageMetadata) content.Usage {
	return content.Usage{
		InputTokens:     int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount),
		OutputTokens:    int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
		ReasoningTokens: int64(u.ThoughtsTokenCount),
		CacheReadTokens: int64(u.CachedContentTokenCount),
	}
}

func (a *answer) part(p *genai.Part) error {
	switch {
	case p == nil:
		return nil
	case p.FunctionCall != nil:
		return a.call(p)
	case p.InlineData != nil:
		return a.whole(content.Part{
			Kind: content.MediaKind, Name: p.InlineData.DisplayName, Reasoning: signed(p.ThoughtSignature),
			Media: &content.Media{Modality: modality(p.InlineData.MIMEType), MIME: p.InlineData.MIMEType, Bytes: p.InlineData.Data},
		})
	case foreign(p):
		raw, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("a part: %w", err)
		}
		return a.whole(content.Part{Kind: content.CustomKind, Name: customPart, Data: raw})
	}
	return a.text(p)
}

// foreign reports whether a part contains more than text.
func foreign(p *genai.Part) bool {
	return p.FileData != nil || p.ExecutableCode != nil || p.CodeExecutionResult != nil || p.FunctionResponse != nil ||
		p.ToolCall != nil || p.ToolResponse != nil
}

func signed(signature []byte) *content.Reasoning {
	if len(signature) == 0 {
		return nil
	}
	return &content.Reasoning{Signature: signature}
}

func (a *answer) call(p *genai.Part) error {
	c := p.FunctionCall
	input := json.RawMessage("{}")
	if len(c.Args) > 0 {
		raw, err := json.Marshal(c.Args)
		if err != nil {
			return fmt.Errorf("the arguments of %s: %w", c.Name, err)
		}
		input = raw
	}
	part := content.CallPart(content.ToolCall{Name: c.Name, Input: input, ProviderID: c.ID})
	part.Reasoning = signed(p.ThoughtSignature)
	return a.whole(part)
}

// whole adds a complete part.
func (a *answer) whole(p content.Part) error {
	i, err := a.reply.Begin(p)
	if err != nil {
		return err
	}
	return a.reply.Commit(i)
}

// text appends to the latest text or thought, or begins a new one. A piece with
// a signature is a part of its own.
func (a *answer) text(p *genai.Part) error {
	part := content.Part{Kind: content.TextKind, Text: p.Text, Reasoning: signed(p.ThoughtSignature)}
	if p.Thought || p.Text == "" && part.Reasoning != nil {
		part.Kind, part.Name = content.ReasoningKind, name
	}
	switch {
	case part.Reasoning != nil:
		return a.whole(part)
	case p.Text == "":
		return nil
	}
	_, err := a.reply.Grow(part)
	return err
}

// Reason returns why the reply ended. A malformed call and a call of an unknown tool
// are errors, because another attempt may succeed.
func (a *answer) Reason() (content.FinishReason, error) {
	switch a.finish {
	case "":
		if a.blocked {
			return content.Blocked, nil
		}
		return "", nil
	case genai.FinishReasonStop:
		if a.reply.HasCalls() {
			return content.ToolCalls, nil
		}
		return content.Completed, nil
	case genai.FinishReasonMaxTokens:
		return content.MaxTokens, nil
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent, genai.FinishReasonSPII, genai.FinishReasonImageSafety,
		genai.FinishReasonImageProhibitedContent, genai.FinishReasonImageRecitation:
		return content.Blocked, nil
	case genai.FinishReasonMalformedFunctionCall, genai.FinishReasonUnexpectedToolCall:
		return "", &model.Error{Class: content.ClassServer, Code: string(a.finish), Message: "the model made a malformed call"}
	case "MISSING_THOUGHT_SIGNATURE": // unknown to the SDK
		return "", &model.Error{Class: content.ClassInvalid, Code: string(a.finish), Message: "the request lacks a thought signature"}
	default:
		return content.Other, nil
	}
}
