package natscli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
)

// identity is a certificate that is its own authority, in files.
type identity struct{ cert, key string }

// encrypts returns a listener's TLS settings, with more of them in the syntax of nats-server.
func (id identity) encrypts(more string) embedded.Option {
	return embedded.WithSettings(fmt.Sprintf("tls { cert_file: %q, key_file: %q, %s }", id.cert, id.key, more))
}

func newIdentity(t *testing.T) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "test"},
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},

		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	dir := t.TempDir()
	return identity{
		cert: write(t, filepath.Join(dir, "cert.pem"), string(certPEM)),
		key:  write(t, filepath.Join(dir, "key.pem"), string(keyPEM)),
	}
}

func TestTLSFlagsReachTheServer(t *testing.T) {
	id := newIdentity(t)
	_, url := serve(t, id.encrypts(""))
	_, strict := serve(t, id.encrypts(fmt.Sprintf("ca_file: %q, verify: true", id.cert)))
	_, plain := serve(t)
	named := strings.Replace(url, "127.0.0.1", "localhost", 1)

	for _, c := range []struct {
		name string
		args []string
		says string // "": connects
	}{
		{"authority", []string{"-s", url, "--tlsca", id.cert}, ""},
		{"client certificate", []string{"-s", strict, "--tlsca", id.cert, "--tlscert", id.cert, "--tlskey", id.key}, ""},
		{"no authority", []string{"-s", url}, "give that authority with --tlsca"},
		{"another name", []string{"-s", named, "--tlsca", id.cert}, "connect to a name in its certificate"},
		{"no client certificate", []string{"-s", strict, "--tlsca", id.cert}, "see --tlscert and --tlskey"},
		{"no TLS there", []string{"-s", plain, "--tlsca", id.cert}, "the server has no TLS"},
	} {
		_, err := dial(t, newEnvironment(t).flags(t, c.args...))
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		wantError(t, err, []string{c.args[1], c.says})
	}
}

// The server's own connections need neither certificate nor encryption.
func TestTLSIsForTheListenerOnly(t *testing.T) {
	id := newIdentity(t)
	s, _ := serve(t, id.encrypts(""))
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestErrorsOfEncryptionAndAuthorizationHaveHints(t *testing.T) {
	for want, err := range map[string]error{
		"not valid now":        x509.CertificateInvalidError{},
		"write tls://":         nats.ErrSecureConnRequired,
		"handshake failed":     nats.ErrTLS,
		"requires credentials": nats.ErrAuthExpired,
	} {
		if got := hintFor(err, &nats.Options{}); !strings.Contains(got, want) {
			t.Errorf("%v: hint %q, want %q", err, got, want)
		}
	}
	if got := hintFor(nats.ErrTimeout, &nats.Options{}); got != "" {
		t.Errorf("another error has the hint %q", got)
	}
}
