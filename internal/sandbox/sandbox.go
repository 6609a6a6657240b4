// Package sandbox confines the commands that tools run, where the machine offers a
// way to.
//
// The one idea: never pretend. [Open] either returns a sandbox that was tried, or says
// that there is none and why; what [Sandbox].Name says is what commands get. The only
// kind so far is bubblewrap (the program bwrap), on Linux.
//
// In it a command may write below the root of its tool and in a /tmp of its own,
// nothing else; it has no network unless that is allowed, sees no other processes, and
// ends with whoever started it. It still reads whatever the host's user may read,
// except for what is in /tmp and /run: a sandbox keeps a command from doing harm, not
// from seeing.
//
// To test against it, look at the command line that [Sandbox.Wrap] returns.
package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The kinds of sandboxes that [Open] knows.
const (
	Auto       = "auto" // bubblewrap if it works here, else none
	None       = "none"
	Bubblewrap = "bwrap"
)

// Kinds lists what [Open] takes.
func Kinds() []string { return []string{Auto, None, Bubblewrap} }

// Options say what commands in a sandbox may do.
type Options struct {
	Network  bool // use the network of the host; zero: they have none
	ReadOnly bool // not write below the root either
}

// Sandbox confines commands. The zero value, and nil, confine nothing.
type Sandbox struct {
	program string // bwrap; empty: none
	opts    Options
}

// probeTime is how long a sandbox may take to prove that it works.
const probeTime = 10 * time.Second

// Open returns the sandbox of a kind. It returns an error if the kind is not known, or
// is asked for by name and does not work here. For Auto, which takes what there is, why
// says why there is none, and is empty if there is one.
func Open(ctx context.Context, kind string, opts Options) (s *Sandbox, why string, err error) {
	switch kind {
	case None, "":
		return &Sandbox{}, "", nil
	case Auto, Bubblewrap:
	default:
		return nil, "", fmt.Errorf("sandbox %q: known are %s", kind, strings.Join(Kinds(), ", "))
	}
	s, err = openBubblewrap(ctx, "bwrap", opts)
	switch {
	case err == nil:
		return s, "", nil
	case kind == Auto:
		return &Sandbox{}, err.Error(), nil
	}
	return nil, "", fmt.Errorf("sandbox %s: %w", kind, err)
}

// openBubblewrap tries whether the program works: many systems have it and forbid what
// it needs.
func openBubblewrap(ctx context.Context, name string, opts Options) (*Sandbox, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed", name)
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &Sandbox{program: program, opts: opts}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	argv := s.Wrap(Command{Root: "/", Dir: "/", Argv: []string{"/bin/sh", "-c", ":"}})
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return nil, fmt.Errorf("%s does not work here: %w: %s", program, err, said)
	}
	return s, nil
}

// Name says what commands get: bwrap or none.
func (s *Sandbox) Name() string {
	if s == nil || s.program == "" {
		return None
	}
	return Bubblewrap
}

// Command is what is to be confined.
type Command struct {
	Root  string   // the directory below which it may write, absolute
	Dir   string   // where it begins, absolute
	Files []string // more files that it may write, absolute
	Path  string   // the program, absolute; empty: Argv[0]
	Argv  []string
}

// Wrap returns the command line that runs the command in the sandbox; without one, as
// it is.
func (s *Sandbox) Wrap(c Command) []string {
	argv := slices.Clone(c.Argv)
	if c.Path != "" {
		argv[0] = c.Path
	}
	if s.Name() == None {
		return argv
	}
	out := []string{
		s.program, "--die-with-parent", "--new-session", "--unshare-all", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run",
	}
	if s.opts.Network {
		out = append(out, "--share-net", "--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve")
	}
	bind := "--bind"
	if s.opts.ReadOnly {
		bind = "--ro-bind"
	}
	if c.Root != "/" {
		out = append(out, bind, c.Root, c.Root)
	}
	for _, f := range c.Files {
		out = append(out, "--bind", f, f)
	}
	return append(append(out, "--chdir", c.Dir, "--"), argv...)
}
