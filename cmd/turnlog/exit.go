package main

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/internal/cli"
)

// exitError is an error that a command exits with.
func exitError(code int, format string, args ...any) error {
	return &cli.ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// usageError says that the command line, or a file that it names, is wrong.
func usageError(format string, args ...any) error { return cli.Usage(format, args...) }

// ended gives the errors of an abandoned turn their exit code.
func ended(err error) error {
	if isInterrupt(err) || errors.Is(err, errLeft) {
		return &cli.ExitError{Code: cli.CodeCancelled, Err: err}
	}
	return err
}

// isInterrupt reports whether a signal ended what failed with err.
func isInterrupt(err error) bool {
	_, ok := errors.AsType[*cli.Interrupted](err)
	return ok
}
