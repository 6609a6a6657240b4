// Package procgroup runs a command together with everything that it starts, and
// leaves no process behind.
//
// The one idea: a command leads its own process group, which its children are born
// into. When the command ends or its context does, the whole group is terminated
// and, after a grace period, killed. Only Unix has process groups; elsewhere Run
// returns an error.
//
// A host that is itself killed with SIGKILL cannot do this. On Linux, the kernel
// then kills the command, unless it runs as another user, but not what the command
// has started: that goes on until it is done or writes to the closed output. On
// other systems nothing is killed.
//
// To test a caller, run a shell that leaves a child in the background and check
// that the child is gone.
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

// linger is how long processes that a command left behind may keep writing.
const linger = time.Second

// Command describes what to run. An [os.File] as Input or Answer is handed to the
// command itself, and Run closes it.
type Command struct {
	Path   string
	Args   []string      // the first is the command's name
	Dir    string        // empty: this process's own
	Env    []string      // nil: this process's own
	Input  io.Reader     // stdin, read to its end before the command starts unless it is a file; nil: empty
	Answer io.Writer     // stdout; nil: Output
	Output io.Writer     // stderr, and stdout without an Answer
	Grace  time.Duration // from SIGTERM to SIGKILL
}

// Run starts the command and returns when its whole group has ended. It stops the
// group when ctx ends. The state says how the command itself ended; the error says
// why it did not start.
func Run(ctx context.Context, c Command) (*os.ProcessState, error) {
	var s streams
	defer s.end()
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Dir: c.Dir, Env: c.Env, SysProcAttr: ownGroup()}
	if err := s.connect(cmd, c); err != nil {
		return nil, err
	}
	exited := make(chan struct{})
	err := start(cmd, exited)
	s.handOver()
	if err != nil {
		return nil, err
	}
	g := group{leader: cmd.Process.Pid, grace: c.Grace}
	select {
	case <-exited:
	case <-ctx.Done():
		g.stop(exited)
		<-exited
	}
	s.wait(ctx, linger)
	g.clear()
	return cmd.ProcessState, nil
}

// start starts a command and closes exited when it has ended. The kernel takes the
// end of the thread that started a command for the end of its parent, so it keeps
// that thread for as long as the command runs.
func start(cmd *exec.Cmd, exited chan<- struct{}) error {
	if !Supported {
		return errors.New("this system has no process groups")
	}
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
