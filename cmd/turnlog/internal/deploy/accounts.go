package deploy

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// usersOf parses users. A word has roles, a queue, the microservices of a worker, and a name: worker+client/gpu@words:ada.
// Each microservice is a separate user in the account of the worker. A user without a name is named after its roles, and
// sends commands without a name. Without words, there is a user for each role, and a worker of the default queue.
func usersOf(namespace string, words []string) []admin.User {
	if len(words) == 0 {
		words = grantable()
		words[slices.Index(words, string(admin.RoleWorker))] += "/" + DefaultQueue
	}
	var users []admin.User
	for _, word := range words {
		word, name, named := strings.Cut(word, ":")
		word, services, calls := strings.Cut(word, "@")
		roles, queue, _ := strings.Cut(word, "/")
		u := admin.User{Name: name, Grant: admin.Grant{Namespace: namespace, Queue: queue, User: name}}
		if !named {
			u.Name = strings.NewReplacer("/", "_", "+", "_").Replace(word)
			u.Inbox = "_INBOX_" + u.Name
		}
		for role := range strings.SplitSeq(roles, "+") {
			u.Roles = append(u.Roles, admin.Role(role))
		}
		if calls {
			u.Services = strings.Split(services, ",")
		}
		users = append(users, u)
		for _, s := range u.Services {
			own := admin.Grant{Namespace: namespace, Roles: []admin.Role{admin.RoleService}, Queue: queue, Services: []string{s}, Inbox: "_INBOX_service_" + s}
			users = append(users, admin.User{Name: "service_" + s, Grant: own})
		}
	}
	return users
}

// passwordOf returns the name of the variable with a user's password.
func passwordOf(u admin.User) string {
	return strings.ToUpper(strings.ReplaceAll(u.Namespace+"_"+u.Name, "-", "_")) + "_PASSWORD"
}

// passwordsDiffer returns an error if two users share a variable: each could connect as the other.
func passwordsDiffer(accounts []admin.Account) error {
	of := make(map[string]string)
	for _, a := range accounts {
		for _, u := range a.Users {
			variable := passwordOf(u)
			if other, taken := of[variable]; taken {
				return cli.Usage("the users %s and %s would share the password $%s: rename one", other, u.Name, variable)
			}
			of[variable] = u.Name
		}
	}
	return nil
}

// printAccounts prints the accounts of users as a configuration of nats-server, with their passwords in
// variables, or as JWTs with keys in a directory.
func printAccounts(output app.Output, g admin.Grant, words []string, keys keyring) error {
	if g.Queue != "" || g.Inbox != "" || g.User != "" || len(g.Services) > 0 {
		return cli.Usage("--accounts: write the queue of a worker as worker/QUEUE, with its services as worker/QUEUE@SERVICE, a user's name as client:ada; every user has an inbox prefix of its own")
	}
	accounts, err := admin.Accounts(usersOf(g.Namespace, words))
	if err != nil {
		return cli.Usage("%w", err)
	}
	if keys != "" {
		return printClaims(output, accounts, keys)
	}
	if err := passwordsDiffer(accounts); err != nil {
		return err
	}
	conf, err := admin.AccountsConf(accounts, func(u admin.User) string {
		return fmt.Sprintf("user: %q, password: $%s # connects with --inbox-prefix %s", u.Name, passwordOf(u), u.Prefix())
	})
	if err != nil {
		return cli.Usage("%w", err)
	}
	return output.Print(accountsReport(accounts), func(w io.Writer) error {
		_, err := io.WriteString(w, "# The deployment "+g.Namespace+". The cell's account is the first one; give its users\n# only to programs that are trusted with everything.\n"+conf)
		return err
	})
}

type accountReport struct {
	Account string       `json:"account"`
	Key     string       `json:"key,omitempty"`
	Users   []userReport `json:"users"`
}

type userReport struct {
	Name        string       `json:"name"`
	Roles       []admin.Role `json:"roles"`
	Queue       string       `json:"queue,omitempty"`
	Services    []string     `json:"nats_services,omitempty"`
	InboxPrefix string       `json:"inbox_prefix"`
	Password    string       `json:"password_variable,omitempty"`
	Creds       string       `json:"creds,omitempty"`
}

// accountsReport is what -o json prints.
func accountsReport(accounts []admin.Account) (out []accountReport) {
	for _, a := range accounts {
		r := accountReport{Account: a.Name}
		for _, u := range a.Users {
			r.Users = append(r.Users, userReport{Name: u.Name, Roles: u.Roles, Queue: u.Queue, Services: u.Services, InboxPrefix: u.Prefix(), Password: passwordOf(u)})
		}
		out = append(out, r)
	}
	return out
}
