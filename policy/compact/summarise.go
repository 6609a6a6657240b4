package compact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// MetaSummary marks an item that replaces others; its value names them.
const MetaSummary = "summary_of"

// Summarise replaces older items with one Context item, a summary by a model. It makes one
// model call. A summary is never summarized again; if there are too many, the oldest is
// dropped.
type Summarise struct {
	Model     model.Model // required; may be a cheaper one than the session's
	Keep      KeepRecent  // which items are not older; zero: the 10 newest
	MaxTokens int64       // size of a summary; 0: 1,024. It replaces at least twice as much
	Summaries int         // how many summaries to keep; 0: 8
}

// Name returns summarise.
func (Summarise) Name() string { return "summarise" }

// ErrNoSummary is returned by Summarise if its model returns no usable text; the transcript
// is unchanged.
var ErrNoSummary = errors.New("no summary")

// Compact summarizes the older items, as many as the model can read at once.
func (s Summarise) Compact(ctx context.Context, j *Job) ([]content.Item, error) {
	s = s.withDefaults()
	o := j.outline()
	keep := s.fit(o, j)
	if keep == nil {
		return j.Items, nil
	}
	older := pick(o.items, not(keep))
	text, err := s.ask(ctx, j, older)
	if err != nil {
		return nil, err
	}
	return s.limit(replace(j.Items, keep, s.item(j, older, text))), nil
}

func (s Summarise) withDefaults() Summarise {
	if s.Keep == (KeepRecent{}) {
		s.Keep.Items = 10
	}
	if s.MaxTokens == 0 {
		s.MaxTokens = 1024
	}
	if s.Summaries == 0 {
		s.Summaries = 8
	}
	return s
}

func (s Summarise) check() error {
	switch {
	case s.Model == nil:
		return &ConfigError{"Strategy", "Summarise.Model is required"}
	case s.MaxTokens < 0 || s.Summaries < 0:
		return &ConfigError{"Strategy", "Summarise.MaxTokens and Summaries cannot be negative"}
	}
	return s.withDefaults().Keep.check()
}

// fit returns what to keep; nil: the older items are not worth a model call. A model with a
// small window gets only the oldest part; a later compaction does the rest.
func (s Summarise) fit(o outline, j *Job) []bool {
	at := s.Keep.cut(o)
	if window := s.Model.Capabilities().ContextTokens; window > 0 {
		at = o.cutBefore(min(at, o.readable(int64(window)/4*3)))
	}
	keep := o.keep(at)
	if j.meter.estimate(pick(o.items, not(keep))) < 2*s.MaxTokens {
		return nil
	}
	return keep
}

// readable returns how many of the first items fit into so many tokens of a request.
func (o outline) readable(tokens int64) int {
	for i, it := range o.items {
		if o.pinned[i] {
			continue
		}
		if tokens -= int64(len(render([]content.Item{it})) / 4); tokens < 0 {
			return i
		}
	}
	return len(o.items)
}

// ask makes the model call and records its usage in any case.
func (s Summarise) ask(ctx context.Context, j *Job, older []content.Item) (string, error) {
	reply, err := s.Model.Call(ctx, model.Request{
		Session: j.Session, Turn: j.Turn, Attempt: 1, Transcript: prompt(older, s.MaxTokens),
	}, func(content.Delta) {})
	if err != nil {
		if e, ok := errors.AsType[*model.Error](err); ok {
			j.Spend(e.Usage)
		}
		return "", fmt.Errorf("call %s: %w", s.Model.Name(), err)
	}
	j.Spend(reply.Usage)
	var answer strings.Builder
	for _, it := range reply.Items {
		answer.WriteString(it.Text())
	}
	switch reply.FinishReason {
	case "", content.Completed, content.MaxTokens:
	case content.ToolCalls, content.Blocked, content.Compaction, content.Cancelled,
		content.Limit, content.Terminated, content.Errored, content.Other:
		return "", fmt.Errorf("call %s: %w: the reply ended with %s", s.Model.Name(), ErrNoSummary, reply.FinishReason)
	}
	text := tidy(answer.String())
	if text == "" {
		return "", fmt.Errorf("call %s: %w: the reply is empty", s.Model.Name(), ErrNoSummary)
	}
	return text, nil
}

// item returns the summary, cut to the size limit.
func (s Summarise) item(j *Job, older []content.Item, text string) content.Item {
	shortened := func(size int) content.Item {
		return content.NewItem(content.Context, content.TextPart(heading+clip(text, size)))
	}
	size := len(text)
	it := shortened(size)
	for j.meter.est.Tokens(it) > s.MaxTokens && size > 0 {
		size = size * 3 / 4
		it = shortened(size)
	}
	it.Metadata = it.Metadata.With(MetaSummary, summaryOf{
		Items: len(older), First: older[0].ID, Last: older[len(older)-1].ID,
	})
	return it
}

// summaryOf refers to the summarized items in the journal.
type summaryOf struct {
	Items int            `json:"items"`
	First content.ItemID `json:"first,omitempty"`
	Last  content.ItemID `json:"last,omitempty"`
}

func isSummary(it content.Item) bool {
	_, ok := it.Metadata.Get(MetaSummary)
	return ok && it.Kind == content.Context
}

// replace puts the summary in place of the first item that is not kept.
func replace(items []content.Item, keep []bool, summary content.Item) []content.Item {
	var out []content.Item
	placed := false
	for i, it := range items {
		switch {
		case keep[i]:
			out = append(out, it)
		case !placed:
			placed = true
			out = append(out, summary)
		}
	}
	return out
}

// limit drops the oldest summaries beyond the limit.
func (s Summarise) limit(items []content.Item) []content.Item {
	over := -s.Summaries
	for _, it := range items {
		if isSummary(it) {
			over++
		}
	}
	return slices.DeleteFunc(items, func(it content.Item) bool {
		if over <= 0 || !isSummary(it) {
			return false
		}
		over--
		return true
	})
}

func not(keep []bool) []bool {
	out := make([]bool, len(keep))
	for i, k := range keep {
		out[i] = !k
	}
	return out
}
