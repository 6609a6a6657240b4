package turnlogtest

import (
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/embedded"
)

// Bubble runs a test on a deployment of its own in virtual time: the clock moves when everything
// waits, and [Deployment.Advance] moves it. A goroutine that is left at the end fails the test.
func Bubble(t *testing.T, test func(*testing.T, *Deployment), opts ...Option) {
	t.Helper()
	embedded.PrepareForSynctest()
	synctest.Test(t, func(t *testing.T) { test(t, New(t, opts...)) })
}

// Main runs the tests of a package that starts servers in bubbles of its own. Use it as TestMain.
func Main(m *testing.M) {
	debug.SetGCPercent(400) // servers are short-lived, so fewer collections save a quarter of the time
	embedded.PrepareForSynctest()
	os.Exit(m.Run())
}

// bubbled reports whether its caller is in a bubble.
func bubbled() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait() // it panics outside of one
	return true
}
