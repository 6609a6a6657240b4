package shell

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// A kept shell is a directory and exported variables that go on from one call to the
// next. No process waits in between, so none can hang, leak or be lost: what is kept
// is what the shell itself wrote down when the last script ended.

// newShell is what a call says to begin one.
const newShell = "new"

// Bounds of kept shells.
const (
	shellsPerSession = 8
	maxState         = 64 << 10 // bytes of variables
)

// kept are the shells of this worker.
type kept struct {
	limit int
	idle  time.Duration

	mu     sync.Mutex
	shells []*keptShell // the one used last at the end
}

// keptShell is one of them. Its state is owned by the call that has taken it.
type keptShell struct {
	session content.SessionID
	id      string
	used    time.Time
	busy    bool

	state []byte // what sh prints for export -p; nil: it is new
	dir   string // for people
}

// take returns the shell for a call, for which it is busy until it is put back.
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
		return nil, tool.Failure(CodeShellGone, "there is no shell %q here: it was ended, or not used for %s, or had to make room for others, "+
			"or this call came to another worker than the one that had it. Begin another one with shell %q, and set its directory and variables again", id, k.idle, newShell)
	case k.shells[i].busy:
		return nil, tool.Failure(CodeShellBusy, "another call still runs in shell %q: wait for its result, or begin another shell", id)
	}
	k.shells[i].busy = true
	return k.shells[i], nil
}

// makeRoom ends the shell that was not used for longest, of the session or of all,
// where there are too many.
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

// put gives a shell back; end forgets it.
func (k *kept) put(s *keptShell, end bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.busy, s.used = false, time.Now()
	k.shells = slices.DeleteFunc(k.shells, func(other *keptShell) bool { return other == s })
	if !end {
		k.shells = append(k.shells, s)
	}
}

// variable is the name of a variable of a shell.
func variable(name string) bool {
	ok, err := regexp.MatchString(`^[A-Za-z_][A-Za-z0-9_]*$`, name)
	return ok && err == nil
}

// checkShell says what is wrong with a call in a kept shell.
func (in input) checkShell() error {
	bad := func(format string, args ...any) error {
		return &tool.Error{Code: tool.CodeInvalidArguments, Message: fmt.Sprintf(format, args...)}
	}
	if in.Shell == "" {
		if in.End {
			return bad("end_shell: names no shell: give shell, too")
		}
		return nil
	}
	if in.Script == "" {
		return bad("shell: give a script with it, not argv")
	}
	for key := range in.Env {
		if !variable(key) {
			return bad("env: %q is no variable of a shell", key)
		}
	}
	return nil
}

// visit is one call in a kept shell: the files through which the state goes in and
// comes out.
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

// enter is what runs before the script: the state comes in, then what the call sets;
// and when the shell ends, however that is, it writes down what is to be kept.
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

// script is what runs. It begins in the first line, which is what its errors name.
func (v visit) script(in input) string {
	return fmt.Sprintf(". %s; %s\n", quote(v.file("enter")), in.Script)
}

// quote makes one word of a text, whatever it holds.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// keep takes the state that the script left, and says what became of the shell.
func (v visit) keep(end bool) string {
	state, fits := read(v.file("after"), maxState)
	dir, _ := read(v.file("pwd"), 4096)
	note := ""
	switch {
	case end:
		return fmt.Sprintf("[shell %s has ended]\n", v.id)
	case !fits:
		note = "; it has too many variables to keep, so it is as it was before"
	case len(state) == 0:
		note = "; its script did not run to its end, so it is as it was before"
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
	return fmt.Sprintf("[shell %s%s: give shell %q to go on in it%s]\n", v.id, at, v.id, note)
}

// read returns up to limit bytes of a file; fits is false if there is more. A file
// that is not there is empty.
func read(name string, limit int64) (data []byte, fits bool) {
	f, err := os.Open(name)
	if err != nil {
		return nil, true
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil || int64(len(data)) > limit {
		return nil, err != nil
	}
	return data, true
}
