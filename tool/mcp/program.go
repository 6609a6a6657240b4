package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/procgroup"
)

const (
	// patience is how long a program may go on when its input has ended, and once more
	// when it was told to end.
	patience = 2 * time.Second
	// maxWords is how much of what a program says last on stderr is kept.
	maxWords = 2 << 10
)

// program is a server that runs here, with all that it starts.
type program struct {
	answers  *os.File  // its stdout
	messages *messages // in there
	input    *os.File  // its stdin
	kill     context.CancelFunc
	words    *lastWords
	once     sync.Once
	deaf     atomic.Bool // it takes no input any more

	ended chan struct{} // closed when nothing of it is left
	state *os.ProcessState
	err   error // why it did not start
}

// start starts the server's program, which outlives ctx.
func (l *link) start(ctx context.Context) (*program, error) {
	s := l.cfg
	env, secrets, err := environment(s, l.all.Getenv)
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	stdin, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Command[0], err)
	}
	answers, stdout, err := os.Pipe()
	if err != nil {
		_, _ = stdin.Close(), input.Close()
		return nil, fmt.Errorf("start %s: %w", s.Command[0], err)
	}
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	p := &program{
		answers: answers, input: input, kill: kill, ended: make(chan struct{}),
		words: &lastWords{log: l.log, noise: &l.noise, secrets: secrets},
	}
	p.messages = newMessages(answers, p.words)
	go func() {
		defer close(p.ended)
		p.state, p.err = procgroup.Run(ctx, procgroup.Command{
			Path: path, Args: s.Command, Dir: s.Dir, Env: env, Input: stdin, Answer: stdout, Output: p.words, Grace: patience,
		})
	}()
	return p, nil
}

// environment is all that the program sees, and which of it are secrets.
func environment(s Server, getenv func(string) string) (env, secrets []string, err error) {
	for _, name := range []string{"PATH", "HOME"} {
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		value, err := lookUp(s.Env[name], getenv)
		if err != nil {
			return nil, nil, fmt.Errorf("environment variable %s: %w", name, err)
		}
		if IsReference(s.Env[name]) {
			secrets = append(secrets, value)
		}
		env = append(env, name+"="+value)
	}
	return env, secrets, nil
}

// Write sends to the program.
func (p *program) Write(b []byte) (int, error) {
	n, err := p.input.Write(b)
	if err != nil {
		p.deaf.Store(true)
	}
	return n, err //nolint:wrapcheck // a pipe's end
}

// Close ends the program as the protocol wants it: its input ends, after a while it is
// told to end, and then it is made to, with all that it started.
func (p *program) Close() error {
	p.once.Do(func() {
		_ = p.input.Close()
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
		}
		p.kill()
		<-p.ended
		_ = p.answers.Close()
	})
	return nil
}

// explain says what became of the program, if that explains err.
func (p *program) explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	given := !p.messages.over.Load() && !p.deaf.Load() // it was not the program that ended it
	_ = p.Close()
	if _, ok := answered(err); ok {
		return err
	}
	text := "the program ended"
	switch {
	case p.err != nil:
		return fmt.Errorf("start: %w", p.err)
	case given:
		text = "the program wrote what cannot be read: " + p.words.hide(err.Error())
	case p.state != nil:
		text += " (" + p.state.String() + ")"
	}
	if last := p.words.last(); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// lastWords keeps what a program said last on stderr.
type lastWords struct {
	log     *zap.Logger
	noise   *sync.Once // tells of a server once, however often it is started
	secrets []string

	mu  sync.Mutex
	buf []byte
}

var _ io.Writer = (*lastWords)(nil)

// Write takes all of b.
func (w *lastWords) Write(b []byte) (int, error) {
	w.log.Debug("MCP server says", zap.String("stderr", w.hide(string(bytes.TrimSpace(b)))))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, b[max(0, len(b)-maxWords):]...)
	w.buf = append(w.buf[:0], w.buf[max(0, len(w.buf)-maxWords):]...)
	return len(b), nil
}

// last returns the last line that is not blank.
func (w *lastWords) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(w.buf), ""), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" {
			return w.hide(line)
		}
	}
	return ""
}

// hide takes the secrets that the program was given out of what it says.
func (w *lastWords) hide(s string) string {
	for _, secret := range w.secrets {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	return s
}
