// Package sandbox confines the commands that tools run, on machines that support it.
//
// [Open] returns a sandbox only after it has tried it, or says why there is none.
// [Sandbox.Name] says what commands get. The only kind so far is bubblewrap (the program
// bwrap) on Linux.
//
// A confined command can write below the root of its tool and in its own /tmp, and
// nowhere else. It has no network unless allowed, sees no other processes, and ends
// with the process that started it. It can still read everything that the host's user can
// read, except /tmp, /run and the paths that its tool hides: a sandbox prevents damage, not
// reading.
//
// To test a caller, check the command line that [Sandbox.Wrap] returns.
package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The kinds of sandboxes.
const (
	Auto       = "auto" // bubblewrap if it works here, otherwise none
	None       = "none"
	Bubblewrap = "bwrap"
)

// Kinds lists the kinds that [Open] accepts.
func Kinds() []string { return []string{Auto, None, Bubblewrap} }

// Sandbox confines commands. The zero value and nil confine nothing.
type Sandbox struct {
	program string // bwrap; empty: none
	network bool   // allow the host's network
	cache   string // a directory for the caches of each root's commands; empty: each command has its own
}

// probeTime is how long the test of a sandbox may take.
const probeTime = 10 * time.Second

// Open returns the sandbox of a kind. It returns an error if the kind is unknown, or is
// not Auto and does not work here. For Auto, why is the reason if there is none. network
// allows the host's network.
func Open(ctx context.Context, kind string, network bool) (s *Sandbox, why string, err error) {
	switch kind {
	case None, "":
		return &Sandbox{}, "", nil
	case Auto, Bubblewrap:
	default:
		return nil, "", fmt.Errorf("unknown sandbox %q: use %s", kind, strings.Join(Kinds(), ", "))
	}
	s, err = openBubblewrap(ctx, "bwrap", network)
	switch {
	case err == nil:
		return s, "", nil
	case kind == Auto:
		return &Sandbox{}, err.Error(), nil
	}
	return nil, "", fmt.Errorf("sandbox %s: %w", kind, err)
}

// openBubblewrap tries the program: many systems have it but forbid what it needs.
func openBubblewrap(ctx context.Context, name string, network bool) (*Sandbox, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed", name)
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &Sandbox{program: program, network: network, cache: cacheDir()}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	runtime.LockOSThread() // when this thread ends, the kernel considers bwrap's parent dead
	defer runtime.UnlockOSThread()
	argv := s.Wrap(Command{Root: "/", Dir: "/", Argv: []string{"/bin/sh", "-c", ":"}})
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return nil, fmt.Errorf("%s does not work here: %w: %s", program, err, said)
	}
	return s, nil
}

// cacheDir returns the directory for the caches of confined commands. They do not share the
// user's: what a model writes into the cache of a compiler would run in the user's builds.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if dir = filepath.Join(dir, "turnlog", "sandbox"); err != nil || os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return ""
	}
	return dir
}

// cacheOf returns the directory for the caches of a root's commands. Each root has its own, because commands of another
// root could poison it.
func (s *Sandbox) cacheOf(root string) string {
	if s.cache == "" {
		return ""
	}
	id := sha256.Sum256([]byte(root))
	return filepath.Join(s.cache, hex.EncodeToString(id[:8]))
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// linkSuffix is the suffix of the link next to a cache that leads to its root.
const linkSuffix = ".root"

// removeCaches removes the caches of roots that no longer exist: a compiler's cache takes 100 MB or more.
func (s *Sandbox) removeCaches() {
	entries, _ := os.ReadDir(s.cache)
	for _, e := range entries {
		link := filepath.Join(s.cache, e.Name())
		cache, ok := strings.CutSuffix(link, linkSuffix)
		if _, err := os.Stat(link); ok && idPattern.MatchString(filepath.Base(cache)) && errors.Is(err, fs.ErrNotExist) {
			_, _ = os.RemoveAll(cache), os.Remove(link)
		}
	}
}

// Name returns what commands get: bwrap or none.
func (s *Sandbox) Name() string {
	if s == nil || s.program == "" {
		return None
	}
	return Bubblewrap
}

// Command is a command to confine. All paths are absolute.
type Command struct {
	Root  string   // the directory that it may write in
	Dir   string   // where it starts
	Files []string // other files and directories that it may write
	Paths          // what it cannot do even below the root
	Path  string   // the program; empty: Argv[0]
	Argv  []string
}

// Paths restrict what a sandbox shows. A path that does not exist is not restricted.
type Paths struct {
	ReadOnly []string // can be read and not written
	Hidden   []string // are empty
}

// Env returns the variables that a root's commands need in the sandbox. They name places where the
// commands can write.
func (s *Sandbox) Env(root string) []string {
	if s.Name() == None {
		return nil
	}
	cache := s.cacheOf(root)
	if _, err := os.Lstat(cache); err != nil {
		s.removeCaches()
	}
	if cache == "" || os.MkdirAll(cache, 0o700) != nil {
		cache = temp + "/.cache"
	} else {
		_ = os.Symlink(root, cache+linkSuffix)
	}
	return []string{"TMPDIR=" + temp, "XDG_CACHE_HOME=" + cache}
}

const temp = "/tmp"

// Wrap returns the command line that runs the command in the sandbox, if there is one.
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
		"--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", temp, "--tmpfs", "/run",
		"--proc", "/proc", "--remount-ro", "/proc", // or root, though without capabilities, could change the kernel's settings
	}
	if s.network {
		out = append(out, "--share-net", "--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve")
	}
	if filepath.IsAbs(argv[0]) {
		if _, err := os.Stat(argv[0]); err == nil {
			out = append(out, "--ro-bind", argv[0], argv[0]) // it may be in /tmp
		}
	}
	if c.Root != "/" {
		out = append(out, "--bind", c.Root, c.Root)
	}
	cache := s.cacheOf(c.Root)
	if at, err := filepath.EvalSymlinks(cache); err == nil && at == cache { // a command of another root may have put a link there
		out = append(out, "--bind", cache, cache)
	}
	for _, f := range c.Files {
		out = append(out, "--bind", f, f)
	}
	for _, dir := range above(slices.Concat(existing(c.ReadOnly), existing(c.Hidden)), existing(slices.Concat(c.Files, []string{c.Root}))) {
		out = append(out, "--bind", dir, dir)
	}
	for _, p := range existing(c.ReadOnly) {
		out = append(out, "--ro-bind", p, p)
	}
	for _, p := range existing(c.Hidden) {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			out = append(out, "--tmpfs", p, "--remount-ro", p)
		} else {
			out = append(out, "--ro-bind", os.DevNull, p)
		}
	}
	return append(append(out, "--chdir", c.Dir, "--"), argv...)
}

// existing returns the targets of the paths that exist. Only existing paths can be mounted on.
func existing(paths []string) []string {
	var out []string
	for _, p := range paths {
		if at, err := filepath.EvalSymlinks(p); err == nil && p != "" && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// above returns the directories between the paths and the directories in which a command may write, outermost
// first. They are mounted too, because a mounted directory cannot be renamed. Otherwise a process could rename a
// folder and read its hidden content under another name.
func above(paths, writable []string) []string {
	var out []string
	for _, p := range paths {
		for _, top := range writable {
			if top == "/" || !strings.HasPrefix(p, top+"/") {
				continue
			}
			for dir := filepath.Dir(p); dir != top; dir = filepath.Dir(dir) {
				out = append(out, dir)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
