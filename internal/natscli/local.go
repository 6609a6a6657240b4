package natscli

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2/maybe"
)

// Local is the context of a server that a user runs on this machine. Its file holds the server's
// token and only that user can read it, so no other user of the machine can connect. Programs that
// connect to the server without other credentials find the token by the server's port. For the nats
// command it is a context like any other.
type Local struct {
	Name  string // of the context
	File  string
	Token string
}

// localContext is as much of a context file as a server of this machine needs.
type localContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	Token       string `json:"token"`
}

// NewToken returns a token that cannot be guessed.
func NewToken() string { return rand.Text() }

// SaveLocal writes the context of a server at a URL. Each start of a server has another token: one
// that a killed server left behind opens nothing.
func SaveLocal(getenv func(string) string, at, token string) (Local, error) {
	u, err := url.Parse(at)
	if err != nil {
		return Local{}, fmt.Errorf("context of %s: %w", at, err)
	}
	l := Local{Name: localName(u), Token: token}
	f := Flags{getenv: getenv}
	if l.File = f.file("context", l.Name+".json"); l.File == "" {
		return Local{}, errors.New("context file with the server's token: HOME is not set")
	}
	raw, err := json.MarshalIndent(localContext{"written by turnlog; gone when that server ends", at, token}, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(l.File), 0o700)
	}
	if err == nil {
		err = maybe.WriteFile(l.File, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return Local{}, fmt.Errorf("context file with the server's token: %w", err)
	}
	return l, nil
}

// Remove removes the file, unless a later server has replaced it.
func (l Local) Remove() error {
	if c, err := readLocal(l.File); err != nil || c.Token != l.Token {
		return nil //nolint:nilerr // there is none, or it is not ours
	}
	return os.Remove(l.File) //nolint:wrapcheck // it names the file
}

func localName(u *url.URL) string { return "turnlog-" + u.Port() }

func readLocal(file string) (c localContext, err error) {
	raw, err := readFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err //nolint:wrapcheck // no caller reports it
}

// localToken returns what reads the token of a server of this user, nil if there is none. It is read
// for each connection: after a restart, the server has another.
func (f *Flags) localToken(servers []string) func() string {
	if len(servers) != 1 || strings.Contains(servers[0], "@") {
		return nil
	}
	u, err := url.Parse(servers[0])
	if err != nil {
		return nil
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "4222")
	}
	file := f.file("context", localName(u)+".json")
	read := func() string {
		c, err := readLocal(file)
		is, parseErr := url.Parse(c.URL)
		if err == nil && parseErr == nil && (is.Host == u.Host || loopback(is) && loopback(u)) {
			return c.Token
		}
		return ""
	}
	if file == "" || read() == "" {
		return nil
	}
	return read
}

// loopback reports whether a URL leads to this machine.
func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
