package admin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Difference is one setting that differs from what the cell needs.
type Difference struct {
	Object  string // the stream, or stream and consumer
	Setting string
	Have    string
	Want    string
}

// MismatchError is returned by Provision for a stream or a consumer that has the cell's name but other
// settings. Nothing was changed. Change the settings, or use another namespace.
type MismatchError struct {
	Differences []Difference
}

// Error lists the differences, one per line.
func (e *MismatchError) Error() string {
	var b strings.Builder
	b.WriteString("streams with the cell's names have other settings")
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "\n%s: %s is %s, must be %s", d.Object, d.Setting, d.Have, d.Want)
	}
	return b.String()
}

// OverlapError is returned by Provision when another stream has a subject of the cell. Nothing
// was created. Delete that stream, or use another namespace.
type OverlapError struct {
	Stream  string // the cell's stream, which cannot be created
	Subject string // of the cell's stream
	Other   string // the stream that has the subject
}

// Error names both streams.
func (e *OverlapError) Error() string {
	return fmt.Sprintf("stream %s cannot be created: its subject %s is one of stream %s", e.Stream, e.Subject, e.Other)
}

// joinErrors joins mismatches into one error. Any other error takes precedence. Only the first of those is
// returned, since they usually have the same cause.
func joinErrors(errs []error) error {
	var all MismatchError
	for _, err := range errs {
		m, ok := errors.AsType[*MismatchError](err)
		if err != nil && !ok {
			return err
		}
		if ok {
			all.Differences = append(all.Differences, m.Differences...)
		}
	}
	if len(all.Differences) > 0 {
		return &all
	}
	return nil
}

// noJetStream adds ErrNoJetStream to errors that mean that.
func noJetStream(err error) error {
	if api.IsNoJetStream(err) || api.IsNoResponders(err) {
		return fmt.Errorf("%w: %w", api.ErrNoJetStream, err)
	}
	return err
}
