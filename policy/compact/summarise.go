package compact

import (
	"cmp"
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

const maxSummaries = 8

// Summarise replaces older items with one Context item, a summary by a model. It makes one model
// call. A summary is never summarized again; if there are more than eight, the oldest is dropped.
type Summarise struct {
	Model     model.Model // required; may be a cheaper one than the session's
	Keep      KeepRecent  // which items are not older; zero: the 10 newest
	MaxTokens int64       // size of a summary; 0: 1,024. It replaces at least twice as much
}

// Name returns summarise.
func (Summarise) Name() string { return "summarise" }

// Compact summarizes the older items, as many as the model can read at once.
func (s Summarise) Compact(ctx context.Context, j *Job) ([]content.Item, error) {
	s = s.withDefaults()
	keep, older := s.fit(j)
	if estimate(older) < 2*s.MaxTokens { // not worth a model call
		return j.Items, nil
	}
	text, err := s.ask(ctx, j, older)
	if err != nil {
		return nil, err
	}
	return limit(slices.Insert(pick(j.Items, keep), slices.Index(keep, false), s.item(older, text))), nil
}

func (s Summarise) withDefaults() Summarise {
	if s.Keep == (KeepRecent{}) {
		s.Keep.Items = 10
	}
	s.MaxTokens = cmp.Or(s.MaxTokens, 1024)
	return s
}

func (s Summarise) check() error {
	if s.Model == nil || s.MaxTokens < 0 {
		return errors.New("Summarise: a Model is required, and MaxTokens must not be negative")
	}
	return s.withDefaults().Keep.check()
}

// fit returns the items to keep and the items to summarize. A model with a small window gets only the
// oldest part; a later compaction summarizes the rest.
func (s Summarise) fit(j *Job) (keep []bool, older []content.Item) {
	o := j.outline()
	at := s.Keep.cut(j, o)
	if window := s.Model.Capabilities().ContextTokens; window > 0 {
		at = o.cutBefore(min(at, o.readable(int64(window)/4*3)))
	}
	keep = o.keep(at)
	for i, it := range o.items {
		if !keep[i] {
			older = append(older, it)
		}
	}
	return keep, older
}

// readable returns how many of the first items fit into a request with this many tokens.
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
	if end := reply.FinishReason; end != "" && end != content.Completed && end != content.MaxTokens {
		return "", fmt.Errorf("call %s: no summary: the reply ended with %s", s.Model.Name(), end)
	}
	text := tidy(answer.String())
	if text == "" {
		return "", fmt.Errorf("call %s: no summary: the reply is empty", s.Model.Name())
	}
	return text, nil
}

// item returns the summary, cut to the size limit.
func (s Summarise) item(older []content.Item, text string) content.Item {
	room := (s.MaxTokens-itemTokens)*bytesPerToken - int64(len(heading))
	it := content.NewItem(content.Context, content.TextPart(heading+clip(text, int(room))))
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

// limit drops the oldest summaries beyond maxSummaries.
func limit(items []content.Item) []content.Item {
	over := -maxSummaries
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
