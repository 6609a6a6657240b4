// Package memory keeps what tasks learned, for later ones: an extension.Memory over
// a [Store].
//
// The one idea: a note is a goal and what came of it, in one line each. Planning a
// task shows those notes of its scope whose goals have most to do with its own;
// finishing it leaves a note, which is forgotten after a while. Who works on the
// same goal again replaces the note.
//
// [Local] keeps notes in this process; package jetstream has a Store that all
// nodes of a cell share. A Store of your own is three methods; to test it, run it
// through package memorytest. [Plan] puts other sources beside a memory, such as
// workspace.Specs.
//
// Memory is a help, never a fact that something depends on: what fails is recorded
// as a warning, and the task goes on.
package memory
