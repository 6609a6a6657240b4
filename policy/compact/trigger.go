package compact

import (
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
)

// Trigger says when to compact: if any of its limits is exceeded. The zero Trigger fires
// every time; then the strategy alone decides whether to change something.
type Trigger struct {
	Items int // the transcript may have this many items; 0: no limit

	// The transcript may take this share of the model's context window. What the model sees
	// besides the transcript counts only if the model reports it, so leave room for tools
	// and for the answer.
	Window int64   // tokens; model.Capabilities may know; 0: no limit
	Share  float64 // 0: 0.75; at most 1

	// Func returns another reason to compact, one word for the journal; "": none. It must
	// depend on the view alone. Nil: there is none.
	Func func(v View) (reason string)
}

// View is what a trigger sees.
type View struct {
	Point  extension.Point
	Items  []content.Item // read only
	Tokens int64          // the transcript's estimated size
}

// fires returns the reason to compact; "": do not compact.
func (t Trigger) fires(v View) string {
	switch {
	case t.Items == 0 && t.Window == 0 && t.Func == nil:
		return "always"
	case t.Items > 0 && len(v.Items) > t.Items:
		return "item_count"
	case t.Window > 0 && float64(v.Tokens) > t.share()*float64(t.Window):
		return "context_window"
	case t.Func != nil:
		return t.Func(v)
	}
	return ""
}

func (t Trigger) share() float64 {
	if t.Share == 0 {
		return 0.75
	}
	return t.Share
}

func (t Trigger) check() error {
	switch {
	case t.Items < 0 || t.Window < 0:
		return &ConfigError{"Trigger", fmt.Sprintf("Items is %d and Window is %d tokens: they must not be negative", t.Items, t.Window)}
	case t.share() < 0 || t.share() > 1:
		return &ConfigError{"Trigger", fmt.Sprintf("Share is %v: use more than 0 and at most 1", t.Share)}
	}
	return nil
}
