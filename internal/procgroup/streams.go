package procgroup

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// streams are a command's stdin, stdout and stderr.
type streams struct {
	theirs []*os.File // closed once the command has copies
	pipes  []pipe
}

// pipe is our end of an output, which a goroutine copies until it ends.
type pipe struct {
	*os.File
	drained chan struct{}
}

// connect gives cmd its streams.
func (s *streams) connect(cmd *exec.Cmd, c Command) (err error) {
	for _, end := range []any{c.Input, c.Answer, c.Output} {
		if f, ok := end.(*os.File); ok {
			s.theirs = append(s.theirs, f)
		}
	}
	if c.Input != nil {
		if cmd.Stdin, err = s.input(c.Input); err != nil {
			return fmt.Errorf("pass the input: %w", err)
		}
	}
	if cmd.Stderr, err = s.output(c.Output); err != nil {
		return err
	}
	if cmd.Stdout = cmd.Stderr; c.Answer != nil {
		cmd.Stdout, err = s.output(c.Answer)
	}
	return err
}

// input returns a file that holds what r does and has no name, so that a command
// that does not read it blocks nothing.
func (s *streams) input(r io.Reader) (*os.File, error) {
	if f, ok := r.(*os.File); ok {
		return f, nil
	}
	f, err := os.CreateTemp("", "turnlog-input-*")
	if err != nil {
		return nil, err //nolint:wrapcheck // connect says what it is for
	}
	s.theirs = append(s.theirs, f)
	_ = os.Remove(f.Name())
	if _, err = io.Copy(f, r); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return f, err //nolint:wrapcheck // as above
}

// output returns a file through which a command writes to w.
func (s *streams) output(w io.Writer) (*os.File, error) {
	if f, ok := w.(*os.File); ok {
		return f, nil
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller knows what it started
	}
	p := pipe{ours, make(chan struct{})}
	s.theirs, s.pipes = append(s.theirs, theirs), append(s.pipes, p)
	go func() {
		defer close(p.drained)
		_, _ = io.Copy(w, ours) // ends with the last writer, or by the deadline in end
	}()
	return theirs, nil
}

// handOver closes our copies of the command's ends.
func (s *streams) handOver() {
	for _, f := range s.theirs {
		_ = f.Close()
	}
	s.theirs = nil
}

// wait waits until the outputs end, but no longer than d, nor than ctx.
func (s *streams) wait(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, p := range s.pipes {
		select {
		case <-p.drained:
		case <-ctx.Done():
		}
	}
}

// end reads what is left in the pipes. Only a process outside the group can still
// hold them open, and it is not waited for.
func (s *streams) end() {
	s.handOver()
	for _, p := range s.pipes {
		_ = p.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		<-p.drained
		_ = p.Close()
	}
}
