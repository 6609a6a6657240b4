package sample

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes a file that the test then executes. No process starts while the file is open:
// one that inherited it would make the execution fail with "text file busy".
func WriteProgram(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
