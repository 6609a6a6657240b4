package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// accountInfo is a request that every role imports. Without that import, the server answers API requests in
// the sender's account, which has no streams, before it looks at imported ones.
const accountInfo = "$JS.API.INFO"

// User is a user of a cell.
type User struct {
	Name string
	Grant
}

// Account is a NATS account of a deployment: the cell's own, or that of all users with the same roles.
type Account struct {
	Name    string
	Users   []User
	Exports map[Import][]string // of the cell, with the accounts that may import each; nil: another account
	Imports []Import            // from the cell
}

// Import is a subject of the cell that another account uses.
type Import struct {
	Subject string
	Stream  bool // its users subscribe; otherwise they publish
	Many    bool // a request may have any number of answers
}

// Accounts returns a layout in which users have no more power than their roles. The cell's account has the
// streams, and the users that are trusted with all of them: drivers, keepers and provisioners. Each other
// user is in the account of its roles, which imports what PermissionsOf lists. The server replaces the
// reply subject of an imported request, so no user can direct a reply at the cell.
func Accounts(users []User) ([]Account, error) {
	byName, taken := make(map[string]*Account), make(map[string]bool)
	cell := &Account{Exports: make(map[Import][]string)}
	for _, u := range users {
		p, err := PermissionsOf(u.Grant)
		if err != nil {
			return nil, err
		}
		if taken[u.Name] {
			return nil, fmt.Errorf("permissions: %w: two users have the name %s", ErrBadGrant, u.Name)
		}
		taken[u.Name] = true
		cell.Name, _ = u.check()
		if u.trusted() {
			cell.Users = append(cell.Users, u)
			continue
		}
		name := u.account(cell.Name)
		a := byName[name]
		if a == nil {
			a = &Account{Name: name}
			byName[name] = a
		}
		for _, i := range u.imports(cell.Name, p) {
			if !slices.Contains(a.Imports, i) {
				a.Imports = append(a.Imports, i)
				cell.Exports[i] = append(cell.Exports[i], name)
			}
		}
		a.Users = append(a.Users, u)
	}
	out := []Account{*cell}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out, nil
}

// trusted reports whether a user belongs in the cell's account.
func (g Grant) trusted() bool {
	return slices.ContainsFunc(g.Roles, func(r Role) bool { return r == RoleDriver || r == RoleKeeper || r == RoleProvisioner })
}

// account returns the name of the account of all users with the same roles. Its parts contain no slashes. A
// service is in the account of its workers.
func (g Grant) account(namespace string) string {
	if slices.Contains(g.Roles, RoleService) {
		g.Roles = []Role{RoleWorker}
	}
	var roles []string
	for _, r := range Grantable() {
		if slices.Contains(g.Roles, r) {
			roles = append(roles, string(r))
		}
	}
	name := namespace + "/" + strings.Join(roles, "+")
	if g.Queue != "" {
		name += "/" + g.Queue
	}
	return name
}

// imports returns what the account of a user with these permissions imports. The account imports what users
// of all names send; the user's own permissions limit it to one name.
func (g Grant) imports(namespace string, p Permissions) []Import {
	out := []Import{{Subject: accountInfo}}
	var ofUsers []string
	for _, row := range Subjects(namespace) {
		if strings.HasSuffix(row.Subject, ofUser) {
			ofUsers = append(ofUsers, wildcard(row.Subject, "", ""))
		}
	}
	publish, hear := g.local()
	for _, s := range p.Publish {
		if slices.Contains(publish, s) {
			continue
		}
		if n := slices.IndexFunc(ofUsers, func(all string) bool { return covers(all, s) }); n >= 0 {
			s = ofUsers[n]
		}
		out = append(out, Import{Subject: s, Many: strings.HasPrefix(s, api.DirectGet) || strings.HasPrefix(s, api.MsgNext)})
	}
	for _, s := range p.Subscribe {
		if s != g.Prefix()+".>" && !slices.Contains(hear, s) {
			out = append(out, Import{Subject: ungrouped(s), Stream: true})
		}
	}
	return out
}

// kind returns the configuration keyword for an import.
func (i Import) kind() string {
	if i.Stream {
		return "stream"
	}
	return "service"
}

// AccountsConf returns accounts in the syntax of nats-server's configuration files. login returns the
// credentials of a user in that syntax.
func AccountsConf(accounts []Account, login func(User) string) (string, error) {
	var b strings.Builder
	b.WriteString("accounts: {\n")
	for _, a := range accounts {
		fmt.Fprintf(&b, "  %q: {\n", a.Name)
		if a.Exports != nil {
			b.WriteString("    jetstream: enabled\n    exports: [\n")
			for _, i := range slices.SortedFunc(maps.Keys(a.Exports), compareImports) {
				many := ""
				if i.Many {
					many = ", response_type: stream"
				}
				fmt.Fprintf(&b, "      { %s: %q%s, accounts: [%s] }\n", i.kind(), i.Subject, many, quoted(a.Exports[i]))
			}
			b.WriteString("    ]\n")
		} else {
			b.WriteString("    imports: [\n")
			for _, i := range a.Imports {
				fmt.Fprintf(&b, "      { %s: { account: %q, subject: %q } }\n", i.kind(), accounts[0].Name, i.Subject)
			}
			b.WriteString("    ]\n")
		}
		b.WriteString("    users: [\n")
		for _, u := range a.Users {
			p, err := PermissionsOf(u.Grant)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "      { %s\n%s      }\n", login(u), p.Conf())
		}
		b.WriteString("    ]\n  }\n")
	}
	b.WriteString("}\n")
	return b.String(), nil
}

func compareImports(a, b Import) int {
	return cmp.Or(strings.Compare(a.kind(), b.kind()), strings.Compare(a.Subject, b.Subject))
}

func quoted(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, ", ")
}
