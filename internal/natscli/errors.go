package natscli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// ErrNoServer is returned by [Flags.Connect] when no NATS server answers at any
// address. Start one, or give another address.
var ErrNoServer = errors.New("no server answers")

// explain turns a failed connect into one line: what failed, why and what to do.
func explain(err error, o *nats.Options, failures []error) error {
	at := redact(o.Servers)
	if hint := hintFor(err, o); hint != "" {
		return fmt.Errorf("connect to NATS at %s: %w: %s", at, err, hint)
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok { // a context's credentials file
		return fmt.Errorf("connect to NATS at %s: %w", at, err)
	}
	isErr := func(failure error) bool { return errors.Is(err, failure) }
	if !errors.Is(err, nats.ErrNoServers) && !slices.ContainsFunc(failures, isErr) {
		return fmt.Errorf("connect to NATS at %s: %w: is that a NATS server?", at, err)
	}
	causes := strings.ReplaceAll(errors.Join(failures...).Error(), "\n", "; ")
	return fmt.Errorf("connect to NATS at %s: %w (%s): start one with \"turnlog server\", or give --server", at, ErrNoServer, causes)
}

// hintFor says what to do about an error of authorization or encryption; "" for others.
func hintFor(err error, o *nats.Options) string {
	for _, target := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if !errors.Is(err, target) {
			continue
		}
		if o.User+o.Token+o.Nkey != "" || o.UserJWT != nil || o.TokenHandler != nil || strings.Contains(strings.Join(o.Servers, ","), "@") {
			return "the server does not accept these credentials"
		}
		return "it requires credentials: give --creds, --user and --password, --token, --nkey, or a --context that has them; a server of turnlog admits only the user who started it, without --open, and its users with roles have a --context each"
	}
	if errors.Is(err, nats.ErrSecureConnWanted) {
		return "the server has no TLS: omit the TLS settings, and write nats:// instead of tls://"
	}
	if errors.Is(err, nats.ErrSecureConnRequired) {
		return "the server requires TLS: write tls:// instead of nats://, and give --tlsca if its authority is private"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is from an unknown authority: give that authority with --tlsca"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "connect to a name in its certificate"
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return "its certificate is not valid now"
	}
	op, ok := errors.AsType[*net.OpError](err)
	alert := ok && op.Op == "remote error" // how crypto/tls reports the peer's refusal
	if alert || errors.Is(err, nats.ErrTLS) {
		return "the TLS handshake failed: the server may want a client certificate, see --tlscert and --tlskey"
	}
	return ""
}

// redact lists URLs without the user, password or token in them.
func redact(urls []string) string {
	out := make([]string, len(urls))
	for i, raw := range urls {
		out[i] = raw
		if at := strings.LastIndex(raw, "@"); at >= 0 {
			out[i] = raw[:strings.Index(raw, "://")+3] + "xxxxx" + raw[at:]
		}
	}
	return strings.Join(out, ", ")
}
