// Package render shows journals to people and programs: events as one line each,
// transcripts as blocks of text, entries as JSON.
//
// Models and tools write the content of journals, so none of it reaches a terminal as it is.
// Control characters, escape sequences and characters that reverse the direction of text are
// escaped. Long texts are clipped, with a note of how much is missing.
//
// A [Style] sets how much is shown, and colors. Functions write only to the given writer and
// read neither the clock nor the environment, so output is the same everywhere.
//
// An entry that this release cannot read is shown raw, with its kinds and fields as stored.
package render
