package fallback

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

// Config configures a [Model].
type Config struct {
	On []content.ErrorClass // classes that pass a request on to the next model; nil: auth, billing and the retryable ones
}

func defaults() []content.ErrorClass {
	return []content.ErrorClass{
		content.ClassAuth, content.ClassBilling, content.ClassRateLimit, content.ClassOverloaded,
		content.ClassTimeout, content.ClassNetwork, content.ClassServer,
	}
}

// Model calls its models in order. It is safe for concurrent use.
type Model struct {
	models []model.Model
	on     []content.ErrorClass
}

// New combines models. It returns an error for no models or an unknown class.
func New(models []model.Model, cfg Config) (*Model, error) {
	if len(models) == 0 {
		return nil, errors.New("no models")
	}
	on := cfg.On
	if on == nil {
		on = defaults()
	}
	for _, c := range on {
		if !slices.Contains(model.ErrorClasses(), c) {
			return nil, fmt.Errorf("unknown class %q", c)
		}
	}
	return &Model{models: slices.Clone(models), on: slices.Clone(on)}, nil
}

// Name returns fallback: and the names of the models.
func (m *Model) Name() string {
	names := make([]string, len(m.models))
	for i, each := range m.models {
		names[i] = each.Name()
	}
	return "fallback:" + strings.Join(names, ",")
}

// Models returns the models, in order.
func (m *Model) Models() []model.Model { return slices.Clone(m.models) }

// Capabilities returns what all models support, and the smallest window.
func (m *Model) Capabilities() model.Capabilities {
	all := m.models[0].Capabilities()
	for _, each := range m.models[1:] {
		c := each.Capabilities()
		all.Tools = all.Tools && c.Tools
		all.Parallel = all.Parallel && c.Parallel
		all.Reasoning = all.Reasoning && c.Reasoning
		all.Media = all.Media && c.Media
		all.OutputSchema = all.OutputSchema && c.OutputSchema
		all.PromptCache = all.PromptCache && c.PromptCache
		if all.ContextTokens == 0 || c.ContextTokens > 0 && c.ContextTokens < all.ContextTokens {
			all.ContextTokens = c.ContextTokens
		}
	}
	return all
}

// Call calls the models in order, each attempt beginning with another one, until one replies.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	var failed failures
	first, count := max(r.Attempt-1, 0), len(m.models)
	for i := first; i < first+count; i++ {
		each, spoke := m.models[i%count], false
		reply, err := each.Call(ctx, r, func(d content.Delta) {
			spoke = true
			emit(d)
		})
		if err == nil {
			return failed.answered(each.Name(), reply), nil
		}
		if ctx.Err() != nil {
			return model.Reply{}, failed.cancelled(err)
		}
		class := failed.add(each.Name(), err)
		if !slices.Contains(m.on, class) {
			break
		}
		if spoke {
			failed.next = i%count != (first+1)%count
			break
		}
	}
	return model.Reply{}, failed.err()
}

// failure is the failure of one model, as shown in metadata.
type failure struct {
	Model string             `json:"model"`
	Class content.ErrorClass `json:"class"`
	Code  string             `json:"code,omitempty"`

	err *model.Error
}

type failures struct {
	list  []failure
	spent content.Usage
	next  bool // the next attempt starts with another model
}

func (f *failures) add(name string, err error) content.ErrorClass {
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		e = &model.Error{Class: content.ClassOther, Message: err.Error()}
	}
	f.list = append(f.list, failure{Model: name, Class: e.Class, Code: e.Code, err: e})
	f.spent = f.spent.Add(e.Usage)
	return e.Class
}

// answered completes the reply of the model that replied.
func (f *failures) answered(name string, reply model.Reply) model.Reply {
	reply.Model = cmp.Or(reply.Model, name)
	reply.Usage = reply.Usage.Add(f.spent)
	if len(f.list) == 0 || len(reply.Items) == 0 {
		return reply
	}
	reply.Items = slices.Clone(reply.Items)
	reply.Items[0].Metadata = reply.Items[0].Metadata.With("fallback", struct {
		Model  string    `json:"model"`
		Failed []failure `json:"failed"`
	}{name, f.list})
	return reply
}

// cancelled returns the error of a canceled call, with the usage so far.
func (f *failures) cancelled(err error) error {
	if f.spent == (content.Usage{}) {
		return err
	}
	used := f.spent
	if e, ok := errors.AsType[*model.Error](err); ok {
		used = used.Add(e.Usage)
	}
	return fmt.Errorf("%w (%w)", &model.Error{Class: content.ClassOther, Message: "canceled before the first reply", Usage: used}, err)
}

func (f *failures) err() error {
	if len(f.list) == 1 && !f.next {
		return f.list[0].err
	}
	texts := make([]string, len(f.list))
	for i, each := range f.list {
		texts[i] = each.Model + ": " + each.err.Error()
	}
	main := f.main()
	out := *main
	out.Message, out.Usage = strings.Join(texts, "; "), f.spent
	switch {
	case f.next:
		out.RetryAfter = 0
	case main.Class.Retryable():
		for _, each := range f.list {
			if each.Class.Retryable() {
				out.RetryAfter = min(out.RetryAfter, each.err.RetryAfter)
			}
		}
	}
	return &out
}

// main returns the first retryable failure, or else the last one.
func (f *failures) main() *model.Error {
	for _, each := range f.list {
		if each.Class.Retryable() {
			return each.err
		}
	}
	return f.list[len(f.list)-1].err
}

// Name returns the name of a fallback model in registries. For a single model, that is the model's own
// name.
func Name(names ...string) string {
	if len(names) == 1 {
		return names[0]
	}
	escape := strings.NewReplacer("%", "%25", "?", "%3F", ",", "%2C")
	escaped := make([]string, len(names))
	for i, n := range names {
		escaped[i] = escape.Replace(n)
	}
	return "fallback:" + strings.Join(escaped, ",")
}
