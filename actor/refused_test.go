package actor_test

import (
	"errors"

	"github.com/turnlog/turnlog/session"
)

func asRefused(err error) (*session.InvalidStateError, bool) {
	return errors.AsType[*session.InvalidStateError](err)
}
