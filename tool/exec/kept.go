package exec

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/tool"
)

// A kept shell is a directory and exported variables that carry over from one call to
// the next. No process runs between calls, so none can hang or leak: the state is what
// the shell wrote to files when the last script ended.

// newShell is the name that starts one.
const newShell = "new"

// Limits of kept shells.
const (
	shellsPerSession = 8
	maxState         = 64 << 10 // bytes of variables
)

// kept is the set of kept shells of this worker.
type kept struct {
	limit int
	idle  time.Duration

	mu     sync.Mutex
	shells []*keptShell // the most recently used last
}

// keptShell is one shell. The call that has taken it owns its state.
type keptShell struct {
	session content.SessionID
	id      string
	used    time.Time
	busy    bool

	state []byte // the output of export -p; nil: it is new
	dir   string // for notes
}

// take returns a shell and marks it busy until put.
func (k *kept) take(session content.SessionID, id string) (*keptShell, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.shells = slices.DeleteFunc(k.shells, func(s *keptShell) bool { return !s.busy && now.Sub(s.used) > k.idle })
	if id == newShell {
		k.makeRoom(session)
		s := &keptShell{session: session, id: strings.ToLower(rand.Text()[:8]), busy: true}
		k.shells = append(k.shells, s)
		return s, nil
	}
	i := slices.IndexFunc(k.shells, func(s *keptShell) bool { return s.id == id && s.session == session })
	switch {
	case i < 0:
		return nil, tool.Failure(CodeShellGone, "there is no shell %q here: it was ended, unused for %s, or evicted, "+
			"or this call reached another worker than the one that has it. Start another with shell %q, and set its directory and variables again", id, k.idle, newShell)
	case k.shells[i].busy:
		return nil, tool.Failure(CodeShellBusy, "another call is running in shell %q: wait for its result, or start another shell", id)
	}
	k.shells[i].busy = true
	return k.shells[i], nil
}

// makeRoom evicts the least recently used shell of the session, or of all, if there are
// too many.
func (k *kept) makeRoom(session content.SessionID) {
	own := 0
	for _, s := range k.shells {
		if s.session == session {
			own++
		}
	}
	drop := func(any bool) {
		i := slices.IndexFunc(k.shells, func(s *keptShell) bool { return !s.busy && (any || s.session == session) })
		if i >= 0 {
			k.shells = slices.Delete(k.shells, i, i+1)
		}
	}
	if own >= shellsPerSession {
		drop(false)
	}
	if len(k.shells) >= k.limit {
		drop(true)
	}
}

// put returns a shell; end removes it.
func (k *kept) put(s *keptShell, end bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.busy, s.used = false, time.Now()
	k.shells = slices.DeleteFunc(k.shells, func(other *keptShell) bool { return other == s })
	if !end {
		k.shells = append(k.shells, s)
	}
}

// visit is one call in a kept shell, with the files that pass the state in and out.
type visit struct {
	*keptShell
	files string // a directory of this call
}

func (s *keptShell) visit(in input, dir string) (visit, error) {
	files, err := os.MkdirTemp("", "turnlog-shell-")
	if err != nil {
		return visit{}, fmt.Errorf("shell %s: %w", s.id, err)
	}
	v := visit{s, files}
	for name, data := range map[string][]byte{"before": s.state, "enter": v.enter(in, dir)} {
		if err := os.WriteFile(v.file(name), data, 0o600); err != nil {
			v.leave()
			return visit{}, fmt.Errorf("shell %s: %w", s.id, err)
		}
	}
	return v, nil
}

func (v visit) file(name string) string { return filepath.Join(v.files, name) }

func (v visit) leave() { _ = os.RemoveAll(v.files) }

// enter returns the commands before the script. They restore the state, set the call's
// variables, and make the shell write its state when it exits for any reason.
func (v visit) enter(in input, dir string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "trap %s EXIT\n", quote(fmt.Sprintf("pwd >%s; export -p >%s", quote(v.file("pwd")), quote(v.file("after")))))
	fmt.Fprintf(&b, ". %s\n", quote(v.file("before")))
	if v.state == nil || in.Cwd != "" {
		fmt.Fprintf(&b, "cd -- %s || exit\n", quote(dir))
	} else {
		b.WriteString("cd -- \"$PWD\" || exit\n")
	}
	for key, value := range in.Env {
		fmt.Fprintf(&b, "export %s=%s\n", key, quote(value))
	}
	return b.Bytes()
}

// script returns what runs. The call's script starts on its first line, so that the line
// numbers in errors are right.
func (v visit) script(in input) string {
	return fmt.Sprintf(". %s; %s\n", quote(v.file("enter")), in.Script)
}

// quote quotes a text for sh.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// keep takes the state that the script left and returns a note about the shell.
func (v visit) keep(end bool) string {
	state, fits := v.read("after", maxState)
	dir, _ := v.read("pwd", 4096)
	note := ""
	switch {
	case end:
		return fmt.Sprintf("[shell %s has ended]\n", v.id)
	case !fits:
		note = "; it has too many variables to keep, so it is unchanged"
	case len(state) == 0:
		note = "; the script did not finish, so it is unchanged"
		if v.state == nil {
			v.state = []byte{}
		}
	default:
		v.state, v.dir = state, strings.TrimSuffix(string(dir), "\n")
	}
	at := ""
	if v.dir != "" {
		at = " in " + v.dir
	}
	return fmt.Sprintf("[shell %s%s: set shell to %q to continue in it%s]\n", v.id, at, v.id, note)
}

// read returns up to limit bytes of a file of the visit. fits is false if there are more. A
// missing file is empty, and so is what the script may have put in its place: a pipe, or a
// link to another file of this machine.
func (v visit) read(name string, limit int64) (data []byte, fits bool) {
	root, err := os.OpenRoot(v.files)
	if err != nil {
		return nil, true
	}
	defer func() { _ = root.Close() }() // nothing was written
	f, err := textfile.OpenIn(root, name)
	if err != nil {
		return nil, true
	}
	defer func() { _ = f.Close() }() // as above
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil || int64(len(data)) > limit {
		return nil, err != nil
	}
	return data, true
}
