// Package explain answers people's questions about journals: who asked for a call, why it could run and
// what its outcome was ([CallReader]); who took part in a session, and what it changed ([ReportReader]);
// which events of many journals match ([Searcher]).
//
// An answer only rearranges what events record, and names the entry for each fact. What a journal does not
// record is empty in an answer, never guessed.
//
// Readers are folds: they get the records of one journal in order and keep only what their answer needs.
// They do not verify: package audit says whether the records can be trusted. They accept any sequence of
// events, even impossible ones. A reader is not safe for concurrent use.
package explain
