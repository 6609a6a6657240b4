// Package explain answers questions of people about journals: who asked for a call, what let it run and
// what came of it ([CallReader]); who took part in a session, and what it changed ([ReportReader]); which
// events of many journals match ([Searcher]).
//
// The one idea: an answer only rearranges what events say, each with the entry that says it. What a journal
// does not record is empty in an answer, never guessed.
//
// Readers are folds: they get the records of one journal in order and keep what their answer has, not the
// journal. They do not verify: package audit says whether the records can be believed. They accept any
// sequence of events, even impossible ones. A reader is not safe for concurrent use.
package explain
