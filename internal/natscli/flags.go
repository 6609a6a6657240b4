// Package natscli connects our programs to NATS the way the nats command does,
// so that who has that one set up needs to set up nothing else.
//
// The one idea: flags, environment and context files of the nats command mean
// the same here. What is said on the command line wins over the environment,
// that over the context that is selected in the nats command, and without any of
// these it is nats://127.0.0.1:4222. Two deliberate differences keep credentials
// from going where they do not belong: a context named on the command line is
// taken as it is, not mixed with the environment; and the selected context is
// only used if no server was named, so its credentials are never sent to another
// server.
//
// A [Flags] belongs to the command that registered it. What Connect returns
// belongs to the caller. Errors are one line each: what, why, what to do; they
// and the log never hold a password, token or key. Contexts that need what is
// not built in (nsc, a SOCKS proxy, a JetStream domain, references to vaults)
// are refused rather than followed by half.
//
// To test a command that uses it, register the flags with a getenv of your own,
// and give the address of an embedded server.
package natscli

import (
	"cmp"
	"net"

	"github.com/nats-io/nats.go"
)

// FlagSet is where a command keeps its flags: a *pflag.FlagSet.
type FlagSet interface {
	StringVarP(p *string, name, shorthand, value, usage string)
}

// Flags says where to connect and as whom. The zero value means the default
// address without credentials. Each field is a flag of the nats command, and all but
// InboxPrefix are environment variables, too.
type Flags struct {
	Server  string // one or more URLs, separated by commas
	Context string // a context of the nats command, by name

	Creds    string // file with a user's JWT and key
	User     string // with Password; alone it is a token, as in the nats command
	Password string
	Token    string
	NKey     string // file with a key

	TLSCert string // certificate file, with TLSKey
	TLSKey  string
	TLSCA   string // certificate authority file

	InboxPrefix string // what the subjects of replies begin with; "": the context's, or _INBOX

	// Dial reaches an address by another way than TCP, for every connection; nil: TCP. It
	// is no flag.
	Dial func(network, address string) (net.Conn, error)

	getenv func(string) string // nil: no environment, and no contexts
}

// variables are the environment variables of the nats command, in its spelling.
func (f *Flags) variables() []variable {
	return []variable{
		{&f.Server, "server", "s", "NATS_URL", "NATS server `URL`s, separated by commas"},
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

type variable struct {
	field                   *string
	flag, short, env, usage string
}

// Register adds the flags to fs. getenv, os.Getenv in a program, is asked for the
// environment when it is needed. Values from the environment do not become
// defaults of the flags, since the help shows those, and some are secrets.
func (f *Flags) Register(fs FlagSet, getenv func(string) string) {
	f.getenv = getenv
	for _, v := range f.variables() {
		fs.StringVarP(v.field, v.flag, v.short, *v.field, v.usage+" ["+v.env+"]")
	}
	fs.StringVarP(&f.InboxPrefix, "inbox-prefix", "", f.InboxPrefix, "`text` that the subjects of replies begin with, as the user's permissions say")
}

// Named reports whether anything says which server is meant: a flag, the
// environment, or a context that is selected in the nats command. If not, a
// program that can do without a deployment may run its own server.
func (f *Flags) Named() bool {
	m := f.merged()
	return m.Server != "" || m.Context != "" || m.hasCredentials() || f.selected() != ""
}

// merged fills in from the environment what the command line leaves open.
func (f *Flags) merged() Flags {
	m := *f
	if m.Context != "" {
		return m // a context on the command line stands for itself
	}
	env := f.environment()
	if m.Server == "" {
		m.Server, m.Context = env.Server, env.Context
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

func (f *Flags) environment() Flags {
	var env Flags
	if f.getenv == nil {
		return env
	}
	for _, v := range env.variables() {
		*v.field = f.getenv(v.env)
	}
	return env
}

func (f *Flags) hasCredentials() bool {
	return cmp.Or(f.Creds, f.User, f.Password, f.Token, f.NKey) != ""
}

// settings puts together where to connect and as whom.
func (f *Flags) settings() (settings, error) {
	m := f.merged()
	var s settings
	if m.Server == "" || m.Context != "" {
		name := cmp.Or(m.Context, f.selected())
		if name != "" {
			var err error
			if s, err = f.load(name); err != nil {
				return settings{}, err
			}
		}
	}
	s.override(m)
	s.URL = cmp.Or(s.URL, nats.DefaultURL)
	return s, s.validate()
}
