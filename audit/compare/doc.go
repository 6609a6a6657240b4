// Package compare says how two sessions differ: where they part, which inputs, calls, results, decisions and
// replies one has and the other does not, and what each cost.
//
// The one idea: a journal is reduced to steps, one line each, that do not name what differs between any two
// sessions, such as times, IDs and hashes. So a session and its replay with the same replies have the same
// steps, and the comparison is that of two texts. What a session begins with, such as the history of a fork, are steps, too.
//
// A [Reader] folds the records of one journal in order and keeps only its steps. It does not verify: package
// audit says whether the records can be believed. [Between] compares two readers.
package compare
