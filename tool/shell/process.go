package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// linger is how long processes that a command left behind may go on writing.
const linger = time.Second

var errTimeout = errors.New("the command's time is over")

// process is one command on its way through the operating system.
type process struct {
	path     string
	argv     []string
	dir      string
	env      []string
	opts     Options
	progress func(text string, share float64)
}

// exit is the structured part of the output.
type exit struct {
	Code     int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	Duration int64  `json:"duration_ms"`
	Cut      int64  `json:"cut_bytes,omitempty"`
}

// run is the life of a command: start, wait or stop, clear up, report.
func (p process) run(ctx context.Context) (tool.Output, error) {
	if ctx.Err() != nil {
		return tool.Output{}, context.Cause(ctx)
	}
	start := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, p.opts.Timeout, errTimeout)
	defer cancel()
	out := &sink{clip: tool.NewClip(p.opts.MaxOutput)}
	state, err := p.wait(limited, out)
	if err != nil {
		return tool.Output{}, notStarted(p.argv[0], err)
	}
	text, cut := out.clip.Text()
	switch {
	case state.Success() || limited.Err() == nil:
	case ctx.Err() != nil:
		return tool.Output{}, context.Cause(ctx)
	default:
		return tool.Output{}, tool.Failure(tool.CodeTimeout, "the command was stopped after %s; %s", p.opts.Timeout, until(text))
	}
	e := exit{Code: state.ExitCode(), Duration: time.Since(start).Milliseconds(), Cut: cut}
	if !state.Exited() {
		e.Signal = strings.TrimPrefix(state.String(), "signal: ")
	}
	return report(text, e, state)
}

func until(text string) string {
	if text == "" {
		return "it had not written anything"
	}
	return "until then it wrote:\n" + text
}

func report(text string, e exit, state *os.ProcessState) (tool.Output, error) {
	if text == "" {
		text = "[no output]\n"
	} else if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if !state.Success() {
		text += fmt.Sprintf("[%s]\n", state)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return tool.Output{}, fmt.Errorf("write the result: %w", err)
	}
	return tool.Output{Parts: []content.Part{content.TextPart(text), content.StructuredPart(raw)}}, nil
}

// wait starts the command and returns when all of its group has ended. The error
// says why it did not start.
func (p process) wait(ctx context.Context, out *sink) (*os.ProcessState, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err //nolint:wrapcheck // run wraps it
	}
	defer func() { _ = r.Close() }()
	cmd := &exec.Cmd{Path: p.path, Args: p.argv, Dir: p.dir, Env: p.env, Stdout: w, Stderr: w, SysProcAttr: ownGroup()}
	err = cmd.Start()
	_ = w.Close() // the command has its own
	if err != nil {
		return nil, err //nolint:wrapcheck // run wraps it
	}
	g := group{leader: cmd.Process.Pid, grace: p.opts.Grace}
	exited, drained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(out, r) // ends with the last writer, or by the deadline below
	}()
	go func() {
		defer close(exited)
		_ = cmd.Wait() // its state says more than the error
	}()

	p.watch(ctx, out, exited, func() { g.stop(exited) })
	if ctx.Err() == nil {
		await(ctx, drained, linger)
	}
	g.clear()
	// Only a process outside of the group can still hold the pipe.
	_ = r.SetReadDeadline(time.Now())
	<-drained
	return cmd.ProcessState, nil
}

// watch tells the progress until the command has ended, and stops it with ctx.
func (p process) watch(ctx context.Context, out *sink, exited <-chan struct{}, stop func()) {
	tick := time.NewTicker(p.opts.Progress)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-exited:
			return
		case <-ctx.Done():
			stop()
			<-exited
			return
		case <-tick.C:
			if line := out.lastLine(); line != "" && line != told {
				told = line
				p.progress(line, 0)
			}
		}
	}
}

// await waits for done, but not for longer than d, nor than ctx.
func await(ctx context.Context, done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// lastLineRoom is how much of the newest output is looked at for its last line.
const lastLineRoom = 500

// sink takes the output of a command.
type sink struct {
	mu   sync.Mutex
	clip *tool.Clip
	last []byte // the newest bytes
}

// Write takes all of b.
func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, b[max(0, len(b)-lastLineRoom):]...)
	s.last = append(s.last[:0], s.last[max(0, len(s.last)-lastLineRoom):]...)
	return s.clip.Write(b)
}

// lastLine returns the newest line that is not blank.
func (s *sink) lastLine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := bytes.FieldsFunc(s.last, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if line := bytes.TrimSpace(line); len(line) > 0 {
			return string(line)
		}
	}
	return ""
}
