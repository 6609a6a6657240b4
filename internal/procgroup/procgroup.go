// Package procgroup runs a command together with everything that it starts, and
// leaves no process running.
//
// A command leads its own process group, and its children inherit that group. When the
// command or its context ends, the whole group is terminated and, after a grace period,
// killed. Only Unix has process groups; elsewhere Run returns an error.
//
// A host that is itself killed with SIGKILL cannot do this. On Linux, the kernel then
// kills the command, unless it runs as another user, but not the command's children:
// they continue until they finish or write to the closed output. Other systems kill
// nothing.
//
// On Linux, a command of root runs without the capability CAP_SYS_PTRACE, so that it cannot
// look into this process (see package conceal).
//
// To test a caller, run a shell that leaves a child in the background and check that
// the child has ended.
package procgroup

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// linger is how long processes that outlive the command may keep writing.
const linger = time.Second

// Command describes what to run. An [os.File] as Input, Answer or Output is passed to
// the command itself, and Run closes it.
type Command struct {
	Path   string        // "": the first of Args, which is searched in this process's PATH if it names no folder
	Args   []string      // the first is the command's name
	Dir    string        // "": this process's own
	Env    []string      // nil: this process's own
	Input  io.Reader     // stdin; nil: empty
	Answer io.Writer     // stdout; nil: Output
	Output io.Writer     // stderr, and stdout without an Answer
	Grace  time.Duration // from SIGTERM to SIGKILL
}

// Run starts the command and returns when its whole group has ended. It stops the
// group when ctx ends. The state says how the command itself ended; the error says
// why it did not start.
func Run(ctx context.Context, c Command) (*os.ProcessState, error) {
	if c.Path == "" {
		c.Path = c.Args[0]
		if !strings.ContainsRune(c.Path, os.PathSeparator) { // otherwise the path is relative to Dir
			path, err := exec.LookPath(c.Path)
			if err != nil {
				return nil, err //nolint:wrapcheck // it names the command
			}
			c.Path = path
		}
	}
	cmd := &exec.Cmd{
		Path: c.Path, Args: c.Args, Dir: c.Dir, Env: c.Env, SysProcAttr: ownGroup(), WaitDelay: linger,
		Stdin: c.Input, Stdout: c.Answer, Stderr: c.Output,
	}
	if c.Answer == nil {
		cmd.Stdout = c.Output
	}
	exited := make(chan struct{})
	err := start(cmd, exited)
	for _, end := range []any{c.Input, c.Answer, c.Output} {
		if f, ok := end.(*os.File); ok {
			_ = f.Close() // the command has its own copy
		}
	}
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
	g.clear()
	return cmd.ProcessState, nil
}

// start starts a command and closes exited once it has ended and its output was read.
// The kernel treats the end of the thread that started a command as the end of the
// command's parent, so that thread exists for as long as the command runs.
func start(cmd *exec.Cmd, exited chan<- struct{}) error {
	if !Supported {
		return errors.New("this system has no process groups")
	}
	started := make(chan error, 1)
	go func() {
		defer close(exited)
		runtime.LockOSThread() // never unlocked: no other goroutine may get a thread with fewer capabilities
		withoutTracing()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the state has more detail than the error
		}
	}()
	return <-started
}
