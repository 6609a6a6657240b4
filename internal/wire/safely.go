package wire

import (
	"errors"
	"fmt"
)

// ErrBroke is returned by Safely when a decoder panicked.
var ErrBroke = errors.New("it cannot be read")

// Safely runs a third-party decoder on untrusted bytes and turns a panic into an error.
func Safely(decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrBroke, p)
		}
	}()
	return decode()
}
