package events

import "fmt"

// FormatError is returned by [Decode] for an entry in the format of a later release.
// The entry is not damaged: show it raw, or use a later release. A FormatError is an
// [ErrUnknownKind].
type FormatError struct {
	Version int
}

// Error says which formats this release reads.
func (e *FormatError) Error() string {
	return fmt.Sprintf("format version %d is newer than this release, which reads up to %d: use a release that reads %d",
		e.Version, newestVersion, e.Version)
}

// Is makes the error an [ErrUnknownKind].
func (e *FormatError) Is(target error) bool { return target == ErrUnknownKind }
