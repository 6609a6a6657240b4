package turnlogtest

import (
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/embedded"
)

// Bubble runs a test on a separate deployment in virtual time. The clock moves when every goroutine
// waits, and [Deployment.Advance] moves it. A goroutine that still runs at the end fails the test.
func Bubble(t *testing.T, test func(*testing.T, *Deployment), opts ...Option) {
	t.Helper()
	embedded.PrepareForSynctest()
	synctest.Test(t, func(t *testing.T) { test(t, New(t, opts...)) })
}

// Main runs the tests of a package that starts servers in its own bubbles. Use it as TestMain.
func Main(m *testing.M) {
	debug.SetGCPercent(400)       // servers are short-lived, so fewer collections save a quarter of the time
	debug.SetMemoryLimit(1 << 30) // the rarer collections are, the more memory is kept, and the rarer they become
	embedded.PrepareForSynctest()
	os.Exit(m.Run())
}

// bubbled reports whether its caller is in a bubble.
func bubbled() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait() // it panics outside of one
	return true
}
