package client

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/jetstream"
)

// ErrForbidden is returned when the server denies this user an operation. Commands, decisions and schedules
// each need a permission. The wrapped *jetstream.DeniedError says which one is missing.
var ErrForbidden = errors.New("forbidden")

// forbidden wraps err in ErrForbidden if the server denied the operation.
func forbidden(err error) error {
	if _, denied := jetstream.Denied(err); denied {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return err
}
