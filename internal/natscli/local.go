package natscli

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2/maybe"

	"github.com/turnlog/turnlog/internal/textfile"
)

// Local is the context of a server that a user runs on this machine. Its file holds the server's
// token, or the password of one of its users, and only the user who runs the server can read it.
// Programs that connect to a server with a token and have no other credentials find the token by the
// server's address, which must be the same: another address of this machine, and even "localhost", may
// lead to the server of another user. For the nats command it is a context like any other.
type Local struct {
	Name  string // name of the context
	File  string
	Login Login
}

// Login says how programs identify themselves to a server: with its token, or as one of its users.
type Login struct {
	Token       string `json:"token,omitempty"`
	User        string `json:"user,omitempty"`
	Password    string `json:"password,omitempty"`
	InboxPrefix string `json:"inbox_prefix,omitempty"`
}

// localContext has the fields of a context file that a server of this machine needs.
type localContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	Login
}

// NewSecret returns a token or password that cannot be guessed.
func NewSecret() string { return rand.Text() }

// KeptPassword returns the password of a user of a server on a port, which an earlier start of the server
// left in the user's context, or "" if there is no such context. A file that is not a context of that user
// is an error: saving the user's context would replace it.
func KeptPassword(getenv func(string) string, port, user string) (string, error) {
	file := (&Flags{getenv: getenv}).file("context", LocalName(port, user)+".json")
	if file == "" {
		return "", errNoHome
	}
	c, err := readLocal(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("context of user %s: %w", user, err)
	case c.User != user || c.Password == "":
		return "", fmt.Errorf("%s has no password of the user %s: remove or rename it", file, user)
	}
	return c.Password, nil
}

var errNoHome = errors.New("context file with credentials: HOME is not set")

// SaveLocal writes the context of a server at a URL. Each start of a server uses a new token, so the
// token of a killed server is useless.
func SaveLocal(getenv func(string) string, at string, login Login) (Local, error) {
	u, err := url.Parse(at)
	if err != nil {
		return Local{}, fmt.Errorf("context of %s: %w", at, err)
	}
	l := Local{Name: LocalName(u.Port(), login.User), Login: login}
	f := Flags{getenv: getenv}
	if l.File = f.file("context", l.Name+".json"); l.File == "" {
		return Local{}, errNoHome
	}
	what := "written by turnlog; removed when that server ends"
	if login.User != "" {
		what = "written by turnlog server; the credentials of its user " + login.User
	}
	raw, err := json.MarshalIndent(localContext{what, at, login}, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(l.File), 0o700)
	}
	if err == nil {
		err = maybe.WriteFile(l.File, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return Local{}, fmt.Errorf("context file with credentials: %w", err)
	}
	return l, nil
}

// Remove removes the file, unless a later server has replaced it.
func (l Local) Remove() error {
	if c, err := readLocal(l.File); err != nil || c.Login != l.Login {
		return nil //nolint:nilerr // there is none, or it is not ours
	}
	return os.Remove(l.File) //nolint:wrapcheck // it names the file
}

// LocalName returns the name of the context of a server on a port, or of one of its users.
func LocalName(port, user string) string {
	name := "turnlog-" + port
	if user != "" {
		name += "-" + user
	}
	return name
}

func readLocal(file string) (c localContext, err error) {
	raw, err := textfile.ReadFile(file, maxFile)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// localToken returns a function that reads the token of a server of this user, and the server's address. It
// returns nil if there is no such server. The token is read for each connection, since a restarted server has a
// new one. "localhost" becomes the address in the context.
func (f *Flags) localToken(servers []string) (token func() string, address string) {
	if len(servers) != 1 || strings.Contains(servers[0], "@") {
		return nil, ""
	}
	u, err := url.Parse(servers[0])
	if err != nil {
		return nil, ""
	}
	host, port := u.Hostname(), cmp.Or(u.Port(), "4222")
	file := f.file("context", LocalName(port, "")+".json")
	there, err := readLocal(file)
	is, parseErr := url.Parse(there.URL)
	if err != nil || parseErr != nil || there.Token == "" {
		return nil, ""
	}
	ip := net.ParseIP(is.Hostname())
	if is.Hostname() != host && (host != "localhost" || ip == nil || !ip.IsLoopback()) {
		return nil, ""
	}
	return func() string {
		if c, err := readLocal(file); err == nil && c.URL == there.URL {
			return c.Token
		}
		return ""
	}, there.URL
}
