// Package natstest starts NATS servers for tests, in virtual time inside a testing/synctest bubble.
package natstest

import (
	"context"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
)

// Main runs the tests of a package with servers in bubbles. Call it from TestMain.
func Main(m *testing.M) {
	CollectRarely()
	ramdisk.Use()
	embedded.PrepareForSynctest()
	os.Exit(m.Run())
}

// CollectRarely makes garbage collections rare: servers are short-lived, so that saves a tenth of the time.
// The limit ends a spiral: pools keep their buffers for two collections, and the more memory is kept, the
// rarer collections are.
func CollectRarely() {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
}

// Start starts a server, by default in memory, that stops with the test.
func Start(tb testing.TB, opts ...embedded.Option) *embedded.Server {
	tb.Helper()
	s, err := embedded.Start(tb.Context(), opts...)
	Must(tb, err)
	tb.Cleanup(s.Close)
	return s
}

// Serve is Start with a port, for programs.
func Serve(tb testing.TB) *embedded.Server {
	tb.Helper()
	return Start(tb, embedded.WithListener("127.0.0.1:0"))
}

// PassWithout lets most of a duration pass without the server, which would otherwise do work every few seconds. The
// last hour passes with a new server, which it returns.
func PassWithout(tb testing.TB, s *embedded.Server, d time.Duration, opts ...embedded.Option) *embedded.Server {
	tb.Helper()
	s.Close()
	<-time.After(d - time.Hour)
	s = Start(tb, opts...)
	<-time.After(time.Hour)
	return s
}

// Connect returns an in-process connection that closes with the test.
func Connect(tb testing.TB, s *embedded.Server, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	nc, err := s.Connect(opts...)
	Must(tb, err)
	tb.Cleanup(nc.Close)
	return nc
}

// ConnectTCP returns a connection over a server's listener that closes with the test. It survives the end of the
// server, and may reconnect while other tests run in bubbles.
func ConnectTCP(tb testing.TB, s *embedded.Server, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	nc, err := nats.Connect(s.ClientURL(), append([]nats.Option{embedded.BubbleSafe()}, opts...)...)
	Must(tb, err)
	tb.Cleanup(nc.Close)
	return nc
}

// Must fails the test at once if err is not nil.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Collect returns the values of a sequence up to its end or its first error.
func Collect[T any](seq iter.Seq2[T, error]) (out []T, err error) {
	for v, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
}

// Within returns a context that ends with the test, or after d by the clock of its bubble.
func Within(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}

// Noise returns n bytes that do not compress, the same for the same seed.
func Noise(n int, seed uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	out := make([]byte, n)
	_, _ = io.ReadFull(r, out) // it never fails
	return out
}
