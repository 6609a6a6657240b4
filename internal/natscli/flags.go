// Package natscli connects programs to NATS in the same way as the nats command, so a
// machine that is set up for one is set up for the other.
//
// Flags, environment variables and contexts mean the same as for the nats command.
// The command line wins over the environment, which wins over the selected context;
// the default is nats://127.0.0.1:4222. Two deliberate differences keep credentials
// from reaching the wrong server: a context named on the command line is not mixed
// with the environment, and the selected context is used only if no server is named.
// One addition: a server that this user runs on this machine has its token in its own
// context, which is found without being named, see [Local].
//
// Errors are one line each. Neither they nor the log contain a password, token or key.
//
// To test a command that uses this package, register the flags with your own getenv
// and pass the address of an embedded server.
package natscli

import (
	"cmp"
	"net"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/internal/textfile"
)

// FlagSet is where a command keeps its flags: a *pflag.FlagSet.
type FlagSet interface {
	// StringVarP adds a flag with a one-letter shorthand.
	StringVarP(p *string, name, shorthand, value, usage string)
}

// Flags are the server to connect to and the credentials to use. The zero value
// connects to the default address without credentials. Each field is a flag of the
// nats command, and all but InboxPrefix are environment variables too.
type Flags struct {
	Server  string // one or more URLs, separated by commas
	Context string // name of a context of the nats command

	Creds    string // file with a user's JWT and key
	User     string // with Password; without one it is a token, as in the nats command
	Password string
	Token    string
	NKey     string // file with a key

	TLSCert string // certificate file, with TLSKey
	TLSKey  string
	TLSCA   string // certificate authority file

	InboxPrefix string // prefix of reply subjects; "": the context's, or _INBOX

	// Dial replaces TCP for every connection if it is not nil. It is not a flag.
	Dial func(network, address string) (net.Conn, error)

	getenv func(string) string // nil: no environment and no contexts
}

type variable struct {
	field                   *string
	flag, short, env, usage string
}

// variables are the flags that are also environment variables of the nats command.
func (f *Flags) variables() []variable {
	return []variable{
		{&f.Server, "server", "s", "NATS_URL", "NATS server `URL`s, separated by commas; default: the nats command's selected context, else " + nats.DefaultURL},
		{&f.Context, "context", "", "NATS_CONTEXT", "`name` of a context of the nats command"},
		{&f.Creds, "creds", "", "NATS_CREDS", "`file` with the NATS user's credentials"},
		{&f.User, "user", "", "NATS_USER", "NATS user `name`, or a token"},
		{&f.Password, "password", "", "NATS_PASSWORD", "NATS `password`"},
		{&f.Token, "token", "", "NATS_TOKEN", "NATS `token`"},
		{&f.NKey, "nkey", "", "NATS_NKEY", "`file` with the NATS user's key"},
		{&f.TLSCert, "tlscert", "", "NATS_CERT", "`file` with the TLS client certificate"},
		{&f.TLSKey, "tlskey", "", "NATS_KEY", "`file` with the key of the TLS client certificate"},
		{&f.TLSCA, "tlsca", "", "NATS_CA", "`file` with the TLS certificate authority"},
	}
}

// Register adds the flags to fs. getenv, os.Getenv in a program, is called when a
// value is needed. Values from the environment do not become defaults of the flags:
// the help prints those, and some are secrets.
func (f *Flags) Register(fs FlagSet, getenv func(string) string) {
	f.getenv = getenv
	for _, v := range f.variables() {
		fs.StringVarP(v.field, v.flag, v.short, *v.field, v.usage+" ["+v.env+"]")
	}
	fs.StringVarP(&f.InboxPrefix, "inbox-prefix", "", f.InboxPrefix, "`prefix` of reply subjects, as the user's permissions require")
}

// merged completes the command line from the environment and the selected context.
func (f *Flags) merged() Flags {
	m := *f
	if m.Context != "" || m.getenv == nil {
		return m // a context on the command line is complete
	}
	var env Flags
	for _, v := range env.variables() {
		*v.field = m.getenv(v.env)
	}
	if m.Server == "" {
		m.Server, m.Context = env.Server, env.Context
	}
	if m.Server == "" && m.Context == "" {
		m.Context = m.selected()
	}
	if !m.hasCredentials() {
		m.Creds, m.User, m.Password, m.Token, m.NKey = env.Creds, env.User, env.Password, env.Token, env.NKey
	}
	if m.TLSCert == "" && m.TLSKey == "" {
		m.TLSCert, m.TLSKey = env.TLSCert, env.TLSKey
	}
	m.TLSCA = cmp.Or(m.TLSCA, env.TLSCA)
	return m
}

// Repeat returns the flags on the command line that name the server, to repeat in another command. It leaves out
// credentials, since another user may run that command.
func (f *Flags) Repeat() (flags string) {
	if f.Context != "" {
		flags += " --context " + f.Context
	}
	var servers []string
	for raw := range strings.SplitSeq(f.Server, ",") {
		if at := strings.LastIndex(raw, "@"); at >= 0 {
			scheme, _, _ := strings.Cut(raw, "://")
			raw = scheme + "://" + raw[at+1:]
		}
		servers = append(servers, raw)
	}
	if f.Server != "" {
		flags += " --server " + strings.Join(servers, ",")
	}
	return flags
}

// At returns the flags for another place: the name of a context, or addresses of servers, for which the same credentials
// are used. An address has a port.
func (f *Flags) At(place string) Flags {
	at := *f
	if strings.Contains(place, ":") {
		at.Server, at.Context = place, ""
		return at
	}
	return Flags{Context: place, Dial: f.Dial, getenv: f.getenv}
}

func (f *Flags) hasCredentials() bool {
	return cmp.Or(f.Creds, f.User, f.Password, f.Token, f.NKey) != ""
}

// selected returns the name of the context selected in the nats command, or "".
func (f *Flags) selected() string {
	name, err := textfile.ReadFile(f.file("context.txt"), maxFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// file returns the path of a file in the nats command's folder; "": there is none.
func (f *Flags) file(elem ...string) string {
	if f.getenv == nil {
		return ""
	}
	dir := f.getenv("XDG_CONFIG_HOME")
	if home := cmp.Or(f.getenv("HOME"), f.getenv("USERPROFILE")); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir, "nats"}, elem...)...)
}
