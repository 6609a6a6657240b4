package compact

import (
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
)

// Trigger says when to compact. The result must follow from the view alone.
type Trigger interface {
	// Fires returns why the transcript is to be compacted, in a word for the
	// journal, or "" if it is not.
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

// WindowShare fires when the transcript is larger than a share of the model's
// context window. What the model is shown beside the transcript counts only as far
// as the model's own numbers tell, so leave room for tools and for the answer.
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
		return &ConfigError{"Trigger", fmt.Sprintf("WindowShare.Share is %v, it has to be over 0 and at most 1", t.Share)}
	}
	return nil
}

// Always fires every time; the strategy alone decides whether there is something to
// gain.
type Always struct{}

// Fires says so.
func (Always) Fires(View) string { return "always" }

// AnyOf fires for the first of its triggers that does.
type AnyOf []Trigger

// Fires asks one trigger after another.
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
