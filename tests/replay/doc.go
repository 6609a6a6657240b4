// Package replay holds journals that must replay forever.
//
// Each file testdata/<name>.jsonl is the export of a session as a release wrote it. The test
// imports it, verifies its chain and every invariant, folds it, and compares the session with
// testdata/<name>.txt. A change that makes a file fail breaks the journals of users of that
// release: the change is wrong, never the file.
//
// To add journals: write a story in stories_test.go, or put the export of a session that failed
// here, and run go test ./tests/replay -update. It writes missing files and never changes one.
package replay
