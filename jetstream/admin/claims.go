package admin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// KeyFunc returns a pair of keys, always the same one for a name: operator, system, accounts/NAME,
// scopes/USER and users/USER. The prefix says which kind of key it is. A scope is a key of an account that
// signs only users with the permissions of that user.
type KeyFunc func(kind nkeys.PrefixByte, name string) (nkeys.KeyPair, error)

// Claims are accounts as JWTs, which a server in operator mode trusts instead of its configuration.
type Claims struct {
	Operator Claim
	System   Claim
	Accounts []AccountClaims // the cell's first
}

// Claim is a JWT and its subject.
type Claim struct {
	Name, Key, JWT string // the key is public
}

// AccountClaims are the JWTs of an account and its users.
type AccountClaims struct {
	Claim
	Users []Claim // as in the account
}

// Sign returns accounts as JWTs of an operator. Each import has a token of the cell's account, and the cell
// exports nothing without one. So no other account of the operator can import what a role may do.
func Sign(accounts []Account, keys KeyFunc) (*Claims, error) {
	s := signer{keys: keys}
	operator, operatorKey := s.key(nkeys.PrefixByteOperator, "operator")
	_, systemKey := s.key(nkeys.PrefixByteAccount, "system")
	cell, cellKey := s.key(nkeys.PrefixByteAccount, accountKeys+claimName(accounts[0].Name))
	if s.err != nil {
		return nil, s.err
	}
	o := jwt.NewOperatorClaims(operatorKey)
	o.SystemAccount = systemKey
	out := &Claims{
		Operator: s.sign(o, "turnlog", operator),
		System:   s.sign(jwt.NewAccountClaims(systemKey), "system", operator),
	}
	for _, a := range accounts {
		_, accountKey := s.key(nkeys.PrefixByteAccount, accountKeys+claimName(a.Name))
		if s.err != nil {
			return nil, s.err
		}
		c := jwt.NewAccountClaims(accountKey)
		if a.Exports != nil {
			c.Limits.JetStreamLimits = jwt.JetStreamLimits{
				MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
			}
		}
		for _, i := range slices.SortedFunc(maps.Keys(a.Exports), compareImports) {
			e := &jwt.Export{Name: i.claimName(), Subject: jwt.Subject(i.Subject), Type: i.claimType(), TokenReq: true}
			if i.Many {
				e.ResponseType = jwt.ResponseTypeStream
			}
			c.Exports.Add(e)
		}
		for _, i := range a.Imports {
			permit := jwt.NewActivationClaims(accountKey)
			permit.ImportSubject, permit.ImportType = jwt.Subject(i.Subject), i.claimType()
			c.Imports.Add(&jwt.Import{
				Name: i.claimName(), Subject: jwt.Subject(i.Subject), Type: i.claimType(), Account: cellKey,
				Token: s.sign(permit, i.claimName(), cell).JWT,
			})
		}
		var users []Claim
		for _, u := range a.Users {
			users = append(users, s.user(u, c))
		}
		signed := AccountClaims{Claim: s.sign(c, claimName(a.Name), operator), Users: users}
		out.Accounts = append(out.Accounts, signed)
	}
	return out, s.err
}

// accountKeys is the start of the names of accounts' keys.
const accountKeys = "accounts/"

// claimName returns the name of an account in its JWT, which tools use as a file name.
func claimName(account string) string { return strings.ReplaceAll(account, "/", ".") }

func (i Import) claimName() string { return i.kind() + " " + i.Subject }

func (i Import) claimType() jwt.ExportType {
	if i.Stream {
		return jwt.Stream
	}
	return jwt.Service
}

// signer signs until an error occurs.
type signer struct {
	keys KeyFunc
	err  error
}

// key returns a pair of keys, and the public one.
func (s *signer) key(kind nkeys.PrefixByte, name string) (nkeys.KeyPair, string) {
	if s.err != nil {
		return nil, ""
	}
	pair, err := s.keys(kind, name)
	if err == nil {
		var public string
		if public, err = pair.PublicKey(); err == nil {
			return pair, public
		}
	}
	s.err = fmt.Errorf("key of %s: %w", name, err)
	return nil, ""
}

// user adds the permissions of a user to its account, and signs the user. The permissions are not in the
// user's JWT: a server refuses one of more than 4 KB, and a driver's would be larger.
func (s *signer) user(u User, account *jwt.AccountClaims) Claim {
	p, err := PermissionsOf(u.Grant)
	if err != nil {
		s.err = err
	}
	scope, scopeKey := s.key(nkeys.PrefixByteAccount, "scopes/"+u.Name)
	_, key := s.key(nkeys.PrefixByteUser, "users/"+u.Name)
	if s.err != nil {
		return Claim{}
	}
	may := jwt.NewUserScope()
	may.Key, may.Role = scopeKey, u.Name
	may.Template.Pub.Allow.Add(p.Publish...)
	may.Template.Sub.Allow.Add(p.Subscribe...)
	switch {
	case p.Responses == 1:
		may.Template.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: 2 * time.Minute} // as allow_responses in a configuration
	case p.Responses > 1:
		may.Template.Resp = &jwt.ResponsePermission{MaxMsgs: p.Responses, Expires: MaxCall}
	}
	account.SigningKeys.AddScopedSigner(may)
	c := jwt.NewUserClaims(key)
	c.SetScoped(true)
	c.IssuerAccount = account.Subject
	return s.sign(c, u.Name, scope)
}

// sign names and signs claims, if they are valid.
func (s *signer) sign(c jwt.Claims, name string, by nkeys.KeyPair) Claim {
	if s.err != nil {
		return Claim{}
	}
	c.Claims().Name = name
	found := jwt.CreateValidationResults()
	c.Validate(found)
	token, err := c.Encode(by)
	if err = errors.Join(append(found.Errors(), err)...); err != nil {
		s.err = fmt.Errorf("JWT of %s: %w", name, err)
	}
	return Claim{Name: name, Key: c.Claims().Subject, JWT: token}
}

// Conf returns the configuration of a server that trusts the operator and keeps the accounts in memory.
func (c *Claims) Conf() string {
	var b strings.Builder
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n", c.Operator.JWT, c.System.Key)
	for _, a := range append([]AccountClaims{{Claim: c.System}}, c.Accounts...) {
		fmt.Fprintf(&b, "  # %s\n  %s: %s\n", a.Name, a.Key, a.JWT)
	}
	b.WriteString("}\n")
	return b.String()
}
