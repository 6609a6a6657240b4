// Package replay holds journals that must replay for ever.
//
// Each file testdata/<name>.jsonl is the export of a session as a release wrote
// it. The test imports it, verifies its chain and every invariant, folds it, and
// compares what the session is then with testdata/<name>.txt. A change that makes
// a file fail breaks the journals of whoever used that release: the change is
// wrong, never the file.
//
// To add journals: write a story in stories_test.go, or put the export of a
// session that went wrong here, and run go test ./tests/replay -update. It writes
// the files that are missing and never touches one that is there.
package replay
