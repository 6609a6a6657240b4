package security

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// keyring makes keys, each once. Its function is safe for concurrent use.
func keyring() admin.KeyFunc {
	var mu sync.Mutex // guards pairs
	pairs := make(map[string]nkeys.KeyPair)
	return func(kind nkeys.PrefixByte, name string) (pair nkeys.KeyPair, err error) {
		mu.Lock()
		defer mu.Unlock()
		if pairs[name] == nil {
			pairs[name], err = nkeys.CreatePair(kind)
		}
		return pairs[name], err
	}
}

// signed holds the accounts and users as JWTs. Signing them takes as long as everything else that a cell
// needs, so all cells share them.
var signed struct {
	once   sync.Once
	keys   admin.KeyFunc
	claims *admin.Claims
	err    error
}

// newSigned returns a cell whose server is in operator mode, with the accounts and users as JWTs.
func newSigned(t testing.TB, v2 bool) *cell {
	t.Helper()
	signed.once.Do(func() {
		signed.keys = keyring()
		signed.claims, signed.err = admin.Sign(apart(t), signed.keys)
	})
	if signed.err != nil {
		t.Fatal(signed.err)
	}
	conf := fmt.Sprintf("feature_flags { js_ack_fc_v2: %t }\n", v2) + signed.claims.Conf()
	return startSigned(t, conf, signed.claims, signed.keys)
}

// startSigned starts a server in operator mode.
func startSigned(t testing.TB, conf string, claims *admin.Claims, keys admin.KeyFunc) *cell {
	t.Helper()
	tokens := make(map[string]string)
	for _, a := range claims.Accounts {
		for _, u := range a.Users {
			tokens[u.Name] = u.JWT
		}
	}
	tokens["spy"] = spyOf(t, keys)
	return start(t, conf, func(user string) nats.Option { return withToken(t, keys, user, tokens[user]) })
}

// pairOf returns a key, and the public one.
func pairOf(t testing.TB, keys admin.KeyFunc, kind nkeys.PrefixByte, name string) (nkeys.KeyPair, string) {
	t.Helper()
	pair, err := keys(kind, name)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

// withToken returns the credentials of a user with a JWT.
func withToken(t testing.TB, keys admin.KeyFunc, user, token string) nats.Option {
	t.Helper()
	pair, _ := pairOf(t, keys, nkeys.PrefixByteUser, "users/"+user)
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return nats.UserJWTAndSeed(token, string(seed))
}

// spyOf returns the JWT of a user of the cell's account who may do everything.
func spyOf(t testing.TB, keys admin.KeyFunc) string {
	t.Helper()
	account, _ := pairOf(t, keys, nkeys.PrefixByteAccount, "accounts/"+jetstream.DefaultNamespace)
	_, key := pairOf(t, keys, nkeys.PrefixByteUser, "users/spy")
	token, err := jwt.NewUserClaims(key).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestAnotherAccountOfTheOperatorImportsNothing has an account that the operator signed import asks from the
// cell, without a token and with that of another account.
func TestAnotherAccountOfTheOperatorImportsNothing(t *testing.T) {
	keys := keyring()
	claims, err := admin.Sign(apart(t), keys)
	if err != nil {
		t.Fatal(err)
	}
	operator, _ := pairOf(t, keys, nkeys.PrefixByteOperator, "operator")
	_, cellKey := pairOf(t, keys, nkeys.PrefixByteAccount, "accounts/"+jetstream.DefaultNamespace)
	for what, as := range map[string]string{"no token": "", "the token of another account": "turnlog.client", "its own token": "itself"} {
		account, key := pairOf(t, keys, nkeys.PrefixByteAccount, "accounts/"+what)
		c := jwt.NewAccountClaims(key)
		c.Imports.Add(&jwt.Import{Subject: "turnlog.cmd.*.ask", Type: jwt.Service, Account: cellKey, Token: tokenFor(t, claims, keys, as, key)})
		token, err := c.Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		conf := strings.Replace(claims.Conf(), "resolver_preload: {", fmt.Sprintf("resolver_preload: {\n%s: %s", key, token), 1)
		synctest.Test(t, func(t *testing.T) {
			c := startSigned(t, conf, claims, keys)
			spy := c.spy()
			soon, cancel := context.WithTimeout(c.ctx, time.Minute)
			defer cancel()
			asks, err := spy.SubscribeSync("turnlog.cmd.*.ask")
			if err == nil {
				err = spy.FlushWithContext(soon) // so that the server has it before the ask
			}
			if err != nil {
				t.Fatal(err)
			}
			_, userKey := pairOf(t, keys, nkeys.PrefixByteUser, "users/stranger")
			user, err := jwt.NewUserClaims(userKey).Encode(account)
			if err != nil {
				t.Fatal(err)
			}
			nc, err := c.srv.Connect(withToken(t, keys, "stranger", user)) // an account with a bad import is refused
			if err == nil {
				err = nc.Publish("turnlog.cmd.s.ask", []byte("x"))
			}
			if err != nil && as == "itself" {
				t.Fatal(err)
			}
			synctest.Wait()
			if n, _, err := asks.Pending(); err != nil || n > 0 != (as == "itself") {
				t.Errorf("with %s, %d asks reach the cell, %v", what, n, err)
			}
		})
	}
}

// tokenFor returns the token with which an account imports asks: its own, that of an account of the cell, or none.
func tokenFor(t testing.TB, claims *admin.Claims, keys admin.KeyFunc, account, key string) string {
	t.Helper()
	if account == "itself" {
		cell, _ := pairOf(t, keys, nkeys.PrefixByteAccount, "accounts/"+jetstream.DefaultNamespace)
		permit := jwt.NewActivationClaims(key)
		permit.ImportSubject, permit.ImportType = "turnlog.cmd.*.ask", jwt.Service
		token, err := permit.Encode(cell)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	for _, a := range claims.Accounts {
		if a.Name != account {
			continue
		}
		c, err := jwt.DecodeAccountClaims(a.JWT)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range c.Imports {
			if i.Subject == "turnlog.cmd.*.ask" {
				return i.Token
			}
		}
		t.Fatalf("%s does not import asks", account)
	}
	return ""
}
