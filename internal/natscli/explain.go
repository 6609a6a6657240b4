package natscli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/nats-io/nats.go"
)

// ErrNoServer is returned by [Flags.Connect] when no NATS server answers at any
// of the addresses. Start one, or give another address.
var ErrNoServer = errors.New("no server answers")

// ErrSettings is returned by [Flags.Connect] for settings that no connection can be
// made with, whatever the server does. Correct the command line or the environment.
var ErrSettings = errors.New("bad settings")

// settingsError is an ErrSettings that says what is wrong.
type settingsError string

func (e settingsError) Error() string { return string(e) }

// Is reports that it is an ErrSettings.
func (settingsError) Is(target error) bool { return target == ErrSettings }

func badSettings(format string, args ...any) error {
	return settingsError(fmt.Sprintf(format, args...))
}

// explain turns what the client says about a failed connect into one line: what,
// why, what to do.
func explain(err error, failures []*failure, servers []string, s settings) error {
	at := redactAll(servers)
	if hint := authHint(err, s); hint != "" {
		return fmt.Errorf("connect to NATS at %s: %w: %s", at, err, hint)
	}
	if hint := tlsHint(err); hint != "" {
		return fmt.Errorf("connect to NATS at %s: %w: %s", at, err, hint)
	}
	if _, ok := errors.AsType[*failure](err); !ok && !errors.Is(err, nats.ErrNoServers) {
		return fmt.Errorf("connect to NATS at %s: %w: is that a NATS server?", at, err)
	}
	return fmt.Errorf("connect to NATS at %s: %w (%s): start one with \"turnlog server\", or give --server",
		at, ErrNoServer, causes(failures))
}

// causes tells why each address failed; one cause for all is told once.
func causes(failures []*failure) string {
	var texts []string
	same := true
	for _, f := range failures {
		texts = append(texts, cause(f.err))
		same = same && texts[0] == texts[len(texts)-1]
	}
	if same {
		return texts[0]
	}
	for i, f := range failures {
		texts[i] = f.address + ": " + texts[i]
	}
	return strings.Join(texts, "; ")
}

// cause drops the layers of a network error that repeat the address.
func cause(err error) string {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return "no answer within " + dialTimeout.String()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Err
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// authHint says what to do if err is about credentials, else "".
func authHint(err error, s settings) string {
	for _, target := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	} {
		if !errors.Is(err, target) {
			continue
		}
		if who := s.as(); who != "" {
			return "the server does not accept " + who
		}
		return "it wants credentials: give --creds, --user and --password, --token, --nkey, or a --context that has them"
	}
	return ""
}

// tlsHint says what to do if err is about encryption, else "".
func tlsHint(err error) string {
	if errors.Is(err, nats.ErrSecureConnWanted) {
		return "the server has no TLS: leave out the TLS settings, and write nats:// instead of tls://"
	}
	if errors.Is(err, nats.ErrSecureConnRequired) {
		return "the server wants TLS: write tls:// instead of nats://, and give --tlsca if its authority is a private one"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is from an authority unknown here: give that one with --tlsca"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "connect under a name that its certificate holds"
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return "its certificate is not valid now"
	}
	op, ok := errors.AsType[*net.OpError](err)
	alert := ok && op.Op == "remote error" // so crypto/tls words the other side's refusal
	if alert || errors.Is(err, nats.ErrTLS) {
		return "the TLS handshake failed: the server may want a client certificate, see --tlscert and --tlskey"
	}
	return ""
}
