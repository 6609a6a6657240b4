// Package procgroup runs a command with all that it starts, and leaves nothing of
// it behind.
//
// The one idea: a command leads a process group of its own, which its children are
// born into. When the command is over, or its context ends, the whole group is
// asked to end and, after a grace, made to. There are process groups on Unix only;
// elsewhere Run returns an error. A command that is talked with has pipes of its
// caller's for input and answer; what it writes to stderr goes to the output.
//
// A process that is killed itself, with SIGKILL, cannot do that any more. On Linux the
// kernel then kills the command, though not what the command has started: that goes
// on until it is done, or writes to the output that nobody reads any more. Nor does
// the kernel kill a command that runs as another user than it was started by. On
// other systems nothing is killed.
//
// To test against it, run a shell that leaves a child in the background, and look
// whether the child is gone.
package procgroup

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// linger is how long processes that a command left behind may go on writing.
const linger = time.Second

// Command is what is to be run.
type Command struct {
	Path   string
	Args   []string // with the command's name as the first
	Dir    string   // empty: this process's own
	Env    []string // nil: this process's own
	Input  *os.File // closed here once the command has it; nil: it reads nothing
	Answer *os.File // its stdout, closed here once the command has it; nil: Output
	Output io.Writer
	Grace  time.Duration // from asking the group to end to making it
}

// Run starts the command and returns when all of its group has ended; the end of
// ctx stops it. The state says how the command itself ended. The error says why it
// did not start.
func Run(ctx context.Context, c Command) (*os.ProcessState, error) {
	if !Supported {
		c.release()
		return nil, errors.New("this system has no process groups")
	}
	r, w, err := os.Pipe()
	if err != nil {
		c.release()
		return nil, err //nolint:wrapcheck // the caller knows what it started
	}
	defer func() { _ = r.Close() }()
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Dir: c.Dir, Env: c.Env, Stdout: w, Stderr: w, SysProcAttr: ownGroup()}
	if c.Input != nil {
		cmd.Stdin = c.Input
	}
	if c.Answer != nil {
		cmd.Stdout = c.Answer
	}
	exited, drained := make(chan struct{}), make(chan struct{})
	err = start(cmd, exited)
	_ = w.Close() // the command has its own
	c.release()
	if err != nil {
		return nil, err
	}
	g := group{leader: cmd.Process.Pid, grace: c.Grace}
	go func() {
		defer close(drained)
		_, _ = io.Copy(c.Output, r) // ends with the last writer, or by the deadline below
	}()

	select {
	case <-exited:
	case <-ctx.Done():
		g.stop(exited)
		<-exited
	}
	if ctx.Err() == nil {
		await(ctx, drained, linger)
	}
	g.clear()
	// Only a process outside of the group can still hold the pipe.
	_ = r.SetReadDeadline(time.Now())
	<-drained
	return cmd.ProcessState, nil
}

// release closes the files that the command has copies of, or never gets.
func (c Command) release() {
	for _, f := range []*os.File{c.Input, c.Answer} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// start starts a command and closes exited when it has ended. The kernel takes the
// end of the thread that started a command for the end of its parent, so that thread
// is kept for as long as the command runs.
func start(cmd *exec.Cmd, exited chan<- struct{}) error {
	started := make(chan error, 1)
	go func() {
		defer close(exited)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its state says more than the error
		}
	}()
	return <-started
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
