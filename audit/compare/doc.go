// Package compare says how two sessions differ: where they diverge, which inputs, calls, results, decisions and
// replies only one of them has, and what each cost.
//
// A journal is reduced to steps, one line each. Steps leave out values that differ between any two sessions, such
// as times, IDs and hashes. So a session and its replay with the same replies have the same steps, and comparing
// sessions is comparing texts. The content with which a session begins, such as the history of a fork, also
// becomes steps.
//
// A [Reader] folds the records of one journal in order and keeps only its steps. It does not verify: package
// audit says whether the records can be trusted. [Between] compares two readers.
package compare
