package natscli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// override lets flags win over what a context says. Credentials are replaced as a
// whole: a context's password must not go with another user's name.
func (s *settings) override(f Flags) {
	s.URL = cmp.Or(f.Server, s.URL)
	if f.hasCredentials() {
		s.Creds, s.User, s.Password, s.Token, s.NKey = f.Creds, f.User, f.Password, f.Token, f.NKey
		if s.Password == "" && s.Token == "" {
			s.User, s.Token = "", s.User
		}
	}
	if f.TLSCert != "" || f.TLSKey != "" {
		s.Cert, s.Key = f.TLSCert, f.TLSKey
	}
	s.CA = cmp.Or(f.TLSCA, s.CA)
	s.InboxPrefix = cmp.Or(f.InboxPrefix, s.InboxPrefix)
}

// validate refuses settings of which one would have to be ignored.
func (s *settings) validate() error {
	var kinds []string
	for _, k := range []struct{ name, value string }{
		{"a credentials file", s.Creds}, {"a user", s.User}, {"a token", s.Token}, {"an nkey", s.NKey},
	} {
		if k.value != "" {
			kinds = append(kinds, k.name)
		}
	}
	switch {
	case len(kinds) > 1:
		return badSettings("credentials: %s at once: give one of them", strings.Join(kinds, " and "))
	case s.Password != "" && s.User == "":
		return badSettings("credentials: a password without a user: give --user too")
	case (s.Cert == "") != (s.Key == ""):
		return badSettings("credentials: a TLS certificate and its key go together: give --tlscert and --tlskey")
	case strings.ContainsAny(s.InboxPrefix, "*> \t") || strings.HasSuffix(s.InboxPrefix, "."):
		return badSettings("inbox prefix %q is not the beginning of a subject: write it like _INBOX_ann", s.InboxPrefix)
	}
	return nil
}

// as says which credentials are used, without telling any secret.
func (s *settings) as() string {
	var who string
	switch {
	case s.Creds != "":
		who = "the credentials in " + s.Creds
	case s.User != "":
		who = fmt.Sprintf("user %q and its password", s.User)
	case s.Token != "":
		who = "the token"
	case s.NKey != "":
		who = "the key in " + s.NKey
	case strings.Contains(s.URL, "@"):
		who = "the credentials in the server URL"
	default:
		return ""
	}
	if s.name != "" {
		who += fmt.Sprintf(" (context %q)", s.name)
	}
	return who
}

// addresses reports whether a URL names a host, and a port if any, as one dials them.
func addresses(u *url.URL) bool {
	host, port := u.Hostname(), u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return false
	}
	return host != "" && (!strings.Contains(host, ":") || net.ParseIP(strings.Split(host, "%")[0]) != nil)
}

// servers splits and checks the URLs. What the client says about a bad one would
// quote it with its password.
func (s *settings) servers() ([]string, error) {
	var servers []string
	for i, raw := range strings.Split(s.URL, ",") {
		raw = strings.TrimSpace(raw)
		if raw == "" {
			continue
		}
		full := raw
		if !strings.Contains(full, "://") {
			full = "nats://" + full
		}
		u, err := url.Parse(full)
		if err != nil || !addresses(u) || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			which := strconv.Quote(raw)
			if strings.Contains(s.URL, "@") {
				which = "number " + strconv.Itoa(i+1) // a password with a comma in it ends up anywhere
			}
			return nil, badSettings("server %s is not an address: write it like nats://127.0.0.1:4222", which)
		}
		servers = append(servers, full)
	}
	if len(servers) == 0 {
		return nil, badSettings("no server address is given: write it like nats://127.0.0.1:4222")
	}
	return servers, nil
}

// redact hides the user, password or token in a URL.
func redact(raw string) string {
	at := strings.LastIndex(raw, "@")
	if at < 0 {
		return raw
	}
	scheme := ""
	if i := strings.Index(raw, "://"); i >= 0 && i < at {
		scheme = raw[:i+3]
	}
	return scheme + "xxxxx" + raw[at:]
}

// redactAll is redact for a list, as people read it.
func redactAll(urls []string) string {
	out := make([]string, len(urls))
	for i, u := range urls {
		out[i] = redact(u)
	}
	return strings.Join(out, ", ")
}

// options turns the settings into options of the client.
func (s *settings) options() ([]nats.Option, error) {
	opts, err := s.identity()
	if err != nil {
		return nil, err
	}
	for _, file := range []string{s.Cert, s.Key, s.CA} {
		if err := readable(file); err != nil {
			return nil, badSettings("TLS: %v", err)
		}
	}
	if s.Cert != "" {
		opts = append(opts, nats.ClientCert(s.Cert, s.Key))
	}
	if s.CA != "" {
		opts = append(opts, nats.RootCAs(s.CA))
	}
	if s.TLSFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	if s.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(s.InboxPrefix))
	}
	return opts, nil
}

// identity returns the option that says who we are, if any.
func (s *settings) identity() ([]nats.Option, error) {
	if err := errors.Join(readable(s.Creds), readable(s.NKey)); err != nil {
		return nil, badSettings("credentials: %v", err)
	}
	switch {
	case s.Creds != "":
		return []nats.Option{nats.UserCredentials(s.Creds)}, nil
	case s.User != "":
		return []nats.Option{nats.UserInfo(s.User, s.Password)}, nil
	case s.Token != "":
		return []nats.Option{nats.Token(s.Token)}, nil
	case s.NKey != "":
		opt, err := nats.NkeyOptionFromSeed(s.NKey)
		if err != nil {
			return nil, badSettings("credentials: key in %s: %v", s.NKey, err)
		}
		return []nats.Option{opt}, nil
	}
	return nil, nil
}

// readable checks a file that the client would only open later, and then with
// less to say.
func readable(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		return fmt.Errorf("file %s: %w", file, err)
	}
	_ = f.Close() // nothing was read or written
	return nil
}
