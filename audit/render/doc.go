// Package render shows journals to people and programs: events as one line each,
// transcripts as blocks of text, entries as JSON.
//
// The one idea: what a journal holds was written by models and tools, so none of
// it reaches a terminal as it is. Control characters, escape sequences and what
// reverses the direction of text are shown as what they are instead of taking
// effect; long texts are clipped, with a note of how much is missing.
//
// A [Style] says how much is shown and whether in colour; it decides nothing by
// itself, so that output is the same wherever it goes. Functions write to the
// writer they are given and read nothing else, no clock and no environment.
//
// An entry that this release cannot read is shown raw: the kinds and fields as they
// are stored.
package render
