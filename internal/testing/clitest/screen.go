package clitest

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience bounds the wait for output, on a busy machine.
const Patience = time.Minute

// Screen collects the output of a program, and lets a test wait for it. It is safe for
// concurrent use.
type Screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed by the next write
}

// NewScreen returns an empty screen.
func NewScreen() *Screen { return &Screen{more: make(chan struct{})} }

// Write appends output.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.more)
	s.more = make(chan struct{})
	n, _ := s.text.Write(b) // a buffer never fails
	return n, nil
}

// String returns the output so far.
func (s *Screen) String() string {
	text, _ := s.look()
	return text
}

func (s *Screen) look() (text string, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String(), s.more
}

// Await waits for a text in the output.
func (s *Screen) Await(t testing.TB, text string) {
	t.Helper()
	s.until(t, text, func(have string) bool { return strings.Contains(have, text) })
}

// AwaitMatch waits until the pattern matches, and returns its last group.
func (s *Screen) AwaitMatch(t testing.TB, pattern string) (group string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	s.until(t, pattern, func(have string) bool {
		m := re.FindStringSubmatch(have)
		if m != nil {
			group = m[len(m)-1]
		}
		return m != nil
	})
	return group
}

func (s *Screen) until(t testing.TB, what string, there func(string) bool) {
	t.Helper()
	end := time.After(Patience)
	for {
		have, more := s.look()
		if there(have) {
			return
		}
		select {
		case <-more:
		case <-end:
			t.Fatalf("%q was not printed; output:\n%s", what, have)
		}
	}
}
