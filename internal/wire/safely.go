package wire

import (
	"errors"
	"fmt"
)

// ErrBroke is returned by Safely when a decoder broke on what it read.
var ErrBroke = errors.New("it cannot be read")

// Safely runs a decoder of other people's making on bytes that anybody may have
// written: where it panics, that is an error.
func Safely(decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrBroke, p)
		}
	}()
	return decode()
}
