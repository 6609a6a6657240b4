package natscli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/turnlog/turnlog/internal/textfile"
)

// ErrSettings is returned by [Flags.Connect] for settings with which no connection
// can be made, whatever the server does. Correct the command line or the environment.
var ErrSettings = errors.New("bad settings")

func badSettings(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSettings}, args...)...)
}

// open connects with opts, which override everything that a context says.
func (f *Flags) open(opts ...nats.Option) (*nats.Conn, error) {
	if f.Context == "" {
		return nats.Connect(nats.DefaultURL, opts...) //nolint:wrapcheck // Connect says what it tried
	}
	file := f.file("context", f.Context+".json")
	if file == "" {
		return nil, fmt.Errorf("context %q: contexts are in the home directory, and HOME is not set", f.Context)
	}
	if _, err := textfile.ReadFile(file, maxFile); err != nil || f.Context != filepath.Base(f.Context) {
		return nil, fmt.Errorf(`context %q is unknown: list contexts with "nats context ls"`, f.Context)
	}
	nc, s, err := natscontext.Connect(file, opts...)
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", f.Context, err)
	}
	if s.NSCLookup+s.JSDomain+s.JSAPIPrefix+s.UserJwt != "" {
		nc.Close()
		return nil, fmt.Errorf("context %q sets nsc, user_jwt or a JetStream domain or prefix, which is not supported: give --server and --creds", f.Context)
	}
	return nc, nil
}

// maxFile is the size limit of a context, a key or a certificate in a file.
const maxFile = 1 << 20

// check reads files that the client reads later. The client's errors about them say less, and it would
// wait for the writer of a pipe.
func check(kind string, files ...string) error {
	for _, file := range files {
		if _, err := textfile.ReadFile(file, maxFile); err != nil {
			return badSettings("%s: %v", kind, err)
		}
	}
	return nil
}

// apply is the option that overrides a context with the flags. Credentials
// are replaced as a whole: a context's password must not go with another user's name.
func (f *Flags) apply(o *nats.Options) error {
	if f.Server != "" {
		o.Servers = strings.Split(f.Server, ",")
	} else if len(o.Servers) == 0 { // a context without a URL
		o.Servers = []string{nats.DefaultURL}
	}
	if err := normalize(o); err != nil {
		return err
	}
	if f.hasCredentials() {
		o.User, o.Password, o.Token, o.Nkey, o.UserJWT, o.SignatureCB = "", "", "", "", nil, nil
		if err := f.identify(o); err != nil {
			return err
		}
	} else if f.Context == "" {
		if token, address := f.localToken(o.Servers); token != nil {
			o.TokenHandler, o.Servers = token, []string{address}
		}
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return badSettings("credentials: a TLS certificate and its key go together: give --tlscert and --tlskey")
	}
	if f.TLSCert != "" {
		if err := check("TLS", f.TLSCert, f.TLSKey); err != nil {
			return err
		}
		if err := nats.ClientCert(f.TLSCert, f.TLSKey)(o); err != nil {
			return badSettings("TLS: %v", err)
		}
	}
	if f.TLSCA != "" {
		if err := check("TLS", f.TLSCA); err != nil {
			return err
		}
		if err := nats.RootCAs(f.TLSCA)(o); err != nil {
			return badSettings("TLS: %v", err)
		}
	}
	if strings.ContainsAny(f.InboxPrefix, "*> \t") || strings.HasSuffix(f.InboxPrefix, ".") {
		return badSettings("inbox prefix %q cannot begin a subject: write it like _INBOX_ann", f.InboxPrefix)
	}
	if f.InboxPrefix != "" {
		o.InboxPrefix = f.InboxPrefix
	}
	return nil
}

// identify sets the kind of credentials that the flags have.
func (f *Flags) identify(o *nats.Options) error {
	user, token := f.User, f.Token
	if user != "" && f.Password == "" && token == "" {
		user, token = "", user
	}
	var kinds []string
	for _, k := range []struct{ name, value string }{
		{"a credentials file", f.Creds}, {"a user", user}, {"a token", token}, {"an nkey", f.NKey},
	} {
		if k.value != "" {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) > 1 {
		return badSettings("credentials: %s at once: give one of them", strings.Join(kinds, " and "))
	}
	if f.Password != "" && user == "" {
		return badSettings("credentials: a password without a user: give --user too")
	}
	o.User, o.Password, o.Token = user, f.Password, token
	switch {
	case f.Creds != "":
		if err := check("credentials", f.Creds); err != nil {
			return err
		}
		return nats.UserCredentials(f.Creds)(o)
	case f.NKey != "":
		if err := check("credentials", f.NKey); err != nil {
			return err
		}
		opt, err := nats.NkeyOptionFromSeed(f.NKey)
		if err != nil {
			return badSettings("credentials: key in %s: %v", f.NKey, err)
		}
		return opt(o)
	}
	return nil
}

// normalize checks the server addresses and gives each a scheme. The client's own
// errors would quote an address with its password.
func normalize(o *nats.Options) error {
	secret := strings.Contains(strings.Join(o.Servers, ","), "@")
	var servers []string
	for i, raw := range o.Servers {
		raw = strings.TrimSpace(raw)
		if raw == "" {
			continue
		}
		full := raw
		if !strings.Contains(full, "://") {
			full = "nats://" + full
		}
		u, err := url.Parse(full)
		if err != nil || !dialable(u) || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			which := strconv.Quote(raw)
			if secret {
				which = "number " + strconv.Itoa(i+1) // a comma in a password splits it anywhere
			}
			return badSettings("server %s is not an address: write it like nats://127.0.0.1:4222", which)
		}
		servers = append(servers, full)
	}
	if len(servers) == 0 {
		return badSettings("no server address is given: write it like nats://127.0.0.1:4222")
	}
	o.Servers = servers
	return nil
}

// dialable reports whether a URL has a host, and a port in range if it has one.
func dialable(u *url.URL) bool {
	host, port := u.Hostname(), u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return false
	}
	return host != "" && (!strings.Contains(host, ":") || net.ParseIP(strings.Split(host, "%")[0]) != nil)
}
