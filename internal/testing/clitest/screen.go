package clitest

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for what should come at once, on a machine that
// is busy elsewhere.
const Patience = time.Minute

// Screen collects what a program prints, and lets a test wait for it. It is safe
// for concurrent use.
type Screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed by the next write
}

// NewScreen returns an empty screen.
func NewScreen() *Screen { return &Screen{more: make(chan struct{})} }

// Write adds to what is shown.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.more)
	s.more = make(chan struct{})
	n, _ := s.text.Write(b) // memory takes all
	return n, nil
}

// String is all that was printed so far.
func (s *Screen) String() string {
	text, _ := s.look()
	return text
}

func (s *Screen) look() (text string, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String(), s.more
}

// Await waits until the text is on the screen.
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
			t.Fatalf("%q did not come; there is:\n%s", what, have)
		}
	}
}
