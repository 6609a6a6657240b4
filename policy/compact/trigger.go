package compact

import (
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
)

// Trigger says when to compact. It must depend on the view alone.
type Trigger interface {
	// Fires returns the reason to compact, one word for the journal; "": do not compact.
	Fires(v View) (reason string)
}

// View is what a trigger sees.
type View struct {
	Point  extension.Point
	Items  []content.Item // read only
	Tokens int64          // the transcript's estimated size
}

// ItemCount fires when the transcript has more than Max items.
type ItemCount struct{ Max int }

// Fires compares the number of items.
func (t ItemCount) Fires(v View) string {
	if len(v.Items) > t.Max {
		return "item_count"
	}
	return ""
}

func (t ItemCount) check() error {
	if t.Max < 1 {
		return &ConfigError{"Trigger", fmt.Sprintf("ItemCount.Max is %d, at least 1 is needed", t.Max)}
	}
	return nil
}

// WindowShare fires when the transcript is larger than a share of the model's context
// window. What the model sees besides the transcript counts only if the model reports it,
// so leave room for tools and for the answer.
type WindowShare struct {
	Window int64   // tokens; model.Capabilities may know
	Share  float64 // 0: 0.75; at most 1
}

// Fires compares the size.
func (t WindowShare) Fires(v View) string {
	if float64(v.Tokens) > t.share()*float64(t.Window) {
		return "context_window"
	}
	return ""
}

func (t WindowShare) share() float64 {
	if t.Share == 0 {
		return 0.75
	}
	return t.Share
}

func (t WindowShare) check() error {
	switch {
	case t.Window < 1:
		return &ConfigError{"Trigger", fmt.Sprintf("WindowShare.Window is %d tokens, at least 1 is needed", t.Window)}
	case t.share() <= 0 || t.share() > 1:
		return &ConfigError{"Trigger", fmt.Sprintf("WindowShare.Share is %v, it must be more than 0 and at most 1", t.Share)}
	}
	return nil
}

// Always fires every time; the strategy alone decides whether to change something.
type Always struct{}

// Fires returns always.
func (Always) Fires(View) string { return "always" }

// AnyOf fires if any of its triggers does.
type AnyOf []Trigger

// Fires returns the reason of the first trigger that fires.
func (t AnyOf) Fires(v View) string {
	for _, one := range t {
		if reason := one.Fires(v); reason != "" {
			return reason
		}
	}
	return ""
}

func (t AnyOf) check() error {
	if len(t) == 0 {
		return &ConfigError{"Trigger", "AnyOf has no triggers and would never fire"}
	}
	for _, one := range t {
		if err := checked("Trigger", one); err != nil {
			return err
		}
	}
	return nil
}
