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
	"github.com/turnlog/turnlog/tool"
)

const (
	// gracePeriod is how long a program may take to end after its input has ended, and
	// again after SIGTERM.
	gracePeriod = 2 * time.Second
	// maxOutput is the number of bytes kept of a program's stderr.
	maxOutput = 2 << 10
)

// program is a server process, with all that it starts.
type program struct {
	answers  *os.File  // its stdout
	messages *messages // on its stdout
	input    *os.File  // its stdin
	kill     context.CancelFunc
	output   *output
	once     sync.Once
	deaf     atomic.Bool // it no longer reads its input

	ended chan struct{} // closed when all its processes have ended
	state *os.ProcessState
	err   error // the reason why it did not start
}

// start starts the server's program, which may outlive ctx.
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
		output: &output{log: l.log, noise: &l.noise, secrets: secrets},
	}
	p.messages = newMessages(answers, p.output)
	go func() {
		defer close(p.ended)
		p.state, p.err = procgroup.Run(ctx, procgroup.Command{
			Path: path, Args: s.Command, Env: env, Input: stdin, Answer: stdout, Output: p.output, Grace: gracePeriod,
		})
	}()
	return p, nil
}

func environment(s Server, getenv func(string) string) (env, secrets []string, err error) {
	for _, name := range []string{"PATH", "HOME"} {
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		value, err := tool.ResolveReference(s.Env[name], getenv)
		if err != nil {
			return nil, nil, fmt.Errorf("environment variable %s: %w", name, err)
		}
		if tool.IsReference(s.Env[name]) {
			secrets = append(secrets, value)
		}
		env = append(env, name+"="+value)
	}
	return env, secrets, nil
}

// Write writes to the program's stdin.
func (p *program) Write(b []byte) (int, error) {
	n, err := p.input.Write(b)
	if err != nil {
		p.deaf.Store(true)
	}
	return n, err //nolint:wrapcheck // a pipe's end
}

// Close ends the program as the protocol specifies: it closes the input, sends SIGTERM
// after a while, and later SIGKILL, to the whole process group.
func (p *program) Close() error {
	p.once.Do(func() {
		_ = p.input.Close()
		timer := time.NewTimer(gracePeriod)
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

// explain returns what happened to the program, if that explains err.
func (p *program) explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	alive := !p.messages.ended.Load() && !p.deaf.Load()
	_ = p.Close()
	if _, ok := serverError(err); ok {
		return err
	}
	text := "the program ended"
	switch {
	case p.err != nil:
		return fmt.Errorf("start: %w", p.err)
	case alive:
		text = "the program wrote an invalid message: " + p.output.hide(err.Error())
	case p.state != nil:
		text += " (" + p.state.String() + ")"
	}
	if last := p.output.last(); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

// output keeps the end of a program's stderr.
type output struct {
	log     *zap.Logger
	noise   *sync.Once // logs once per server, not per process
	secrets []string

	mu  sync.Mutex
	buf []byte
}

var _ io.Writer = (*output)(nil)

// Write never fails.
func (w *output) Write(b []byte) (int, error) {
	w.log.Debug("MCP server output", zap.String("stderr", w.hide(string(bytes.TrimSpace(b)))))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, b[max(0, len(b)-maxOutput):]...)
	w.buf = append(w.buf[:0], w.buf[max(0, len(w.buf)-maxOutput):]...)
	return len(b), nil
}

// skipped keeps a line of stdout that is not a message.
func (w *output) skipped(line []byte) {
	w.noise.Do(func() {
		w.log.Warn("MCP server wrote a line that is not a message", zap.String("line", w.hide(string(line))))
	})
	_, _ = w.Write(append(bytes.Clone(line), '\n')) // never fails
}

// last returns the last line that is not blank.
func (w *output) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(w.buf), ""))
	return w.hide(strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:]))
}

// hide removes the program's secrets from a text.
func (w *output) hide(s string) string {
	for _, secret := range w.secrets {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	return s
}
