package natscli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
)

// identity is a certificate that is its own authority, in memory and in files.
type identity struct {
	pair      tls.Certificate
	pool      *x509.CertPool
	cert, key string
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
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	dir := t.TempDir()
	return identity{
		pair: pair,
		pool: pool,
		cert: write(t, filepath.Join(dir, "cert.pem"), string(certPEM)),
		key:  write(t, filepath.Join(dir, "key.pem"), string(keyPEM)),
	}
}

func TestTLSFlagsReachTheServer(t *testing.T) {
	id := newIdentity(t)
	_, url := serve(t, embedded.WithTLS(&tls.Config{Certificates: []tls.Certificate{id.pair}, MinVersion: tls.VersionTLS12}))
	_, strict := serve(t, embedded.WithTLS(&tls.Config{
		Certificates: []tls.Certificate{id.pair}, MinVersion: tls.VersionTLS12,
		ClientCAs: id.pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}))
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
		{"another name", []string{"-s", named, "--tlsca", id.cert}, "connect to a name that its certificate holds"},
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
	s, _ := serve(t, embedded.WithTLS(&tls.Config{Certificates: []tls.Certificate{id.pair}, MinVersion: tls.VersionTLS12}))
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestErrorsOfEncryptionAndAuthorizationHaveHints(t *testing.T) {
	for want, err := range map[string]error{
		"not valid now":     x509.CertificateInvalidError{},
		"write tls://":      nats.ErrSecureConnRequired,
		"handshake failed":  nats.ErrTLS,
		"wants credentials": nats.ErrAuthExpired,
	} {
		if got := hintFor(err, &nats.Options{}); !strings.Contains(got, want) {
			t.Errorf("%v: hint %q, want %q", err, got, want)
		}
	}
	if got := hintFor(nats.ErrTimeout, &nats.Options{}); got != "" {
		t.Errorf("another error has the hint %q", got)
	}
}
