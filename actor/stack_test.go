package actor_test

import (
	"runtime"
	"testing"
	"time"
)

// A goroutine whose stack is used to a quarter keeps half of it at the next garbage collection. The stack of a
// driver that waits has 4 KB only if the functions that it waits in need little (see next in driver.go).
func TestAnIdleSessionHasASmallStack(t *testing.T) { //nolint:paralleltest // it measures the process
	const sessions = 300
	h := newHolder(t, sessions)
	h.node()
	before := stacks()
	h.create()
	for end := time.Now().Add(time.Minute); stacks()-before > sessions*6<<10; {
		if time.Now().After(end) {
			t.Fatalf("the stacks of %d sessions take %d bytes each, want about 4096", sessions, (stacks()-before)/sessions)
		}
	}
}

// stacks returns the bytes of all stacks after a garbage collection.
func stacks() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.StackInuse) //nolint:gosec // of this process
}
