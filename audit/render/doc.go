// Package render formats journals for people: events as one line each, and transcripts as
// blocks of text.
//
// Models and tools write the content of journals, so no part of it is printed unchecked:
// control characters, escape sequences and characters that reverse the direction of text are
// escaped. Long texts are clipped, with a note of how much is missing.
//
// A [Style] sets the colors and whether texts are clipped. Functions write only to the given
// writer and read neither the clock nor the environment, so output is the same everywhere.
//
// An entry that this release cannot decode is printed raw, with its kinds and fields as stored.
package render
