package client

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/jetstream"
)

// ErrForbidden is returned when the server denies this user something: asks, decisions and
// schedules are a permission each. The *jetstream.DeniedError in it says which is missing.
var ErrForbidden = errors.New("forbidden")

// forbidden returns err as ErrForbidden if it is because the server denies it.
func forbidden(err error) error {
	if _, denied := jetstream.Denied(err); denied {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return err
}
