package actor_test

import (
	"errors"

	"github.com/turnlog/turnlog/client"
)

func asRefused(err error) (*client.RefusedError, bool) {
	return errors.AsType[*client.RefusedError](err)
}
