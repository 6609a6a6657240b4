package wire

import (
	"errors"
	"testing"
)

func TestSafelyTurnsAPanicIntoAnError(t *testing.T) {
	t.Parallel()
	broke := Safely(func() error { panic("nil dereference") })
	if !errors.Is(broke, ErrBroke) {
		t.Errorf("Safely = %v, want ErrBroke", broke)
	}
	other := errors.New("other")
	if err := Safely(func() error { return other }); !errors.Is(err, other) {
		t.Errorf("Safely = %v, want what the decoder says", err)
	}
}
