package people_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/gateway/people"
)

func TestRolesOwnerAndAgentDecide(t *testing.T) {
	t.Parallel()
	own, same := people.Subject{Owner: "ada", Agent: "review-go"}, people.Subject{Owner: "bob", Agent: "review-go"}
	other, none := people.Subject{Owner: "bob", Agent: "deploy"}, people.Subject{}
	for role, want := range map[people.Role]string{
		//                  see        open  drive      decide
		people.Viewer:   "own same | -    | -          | -",
		people.User:     "own      | open | own        | -",
		people.Approver: "own same | open | own        | own same",
		people.Operator: "own same other none | open | own same other none | own same other none",
	} {
		p := people.Person{Name: "ada", Role: role, Agents: []string{"review-*"}}
		list := func(may func(people.Subject) bool) string {
			var out []string
			for _, s := range []struct {
				name string
				people.Subject
			}{{"own", own}, {"same", same}, {"other", other}, {"none", none}} {
				if may(s.Subject) {
					out = append(out, s.name)
				}
			}
			return strings.Join(append(out, ""), " ")
		}
		open := "- "
		if p.MayOpen("review-go") {
			open = "open "
		}
		var got []string
		for _, s := range []string{list(p.MaySee), open, list(p.MayDrive), list(p.MayDecide)} {
			if s == "" {
				s = "-"
			}
			got = append(got, strings.TrimSpace(s))
		}
		if strings.ReplaceAll(strings.Join(got, "|"), " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: %s, want %s", role, strings.Join(got, " | "), want)
		}
		if role != people.Operator && p.MayOpen("deploy") {
			t.Errorf("%s opens sessions of another agent", role)
		}
	}
	if all := (&people.Person{Name: "eve", Role: people.Viewer}); !all.MaySee(none) {
		t.Error("a viewer of all agents does not see a session without one")
	}
}

func TestAFileNamesPeopleByTheHashOfTheirTokens(t *testing.T) {
	t.Parallel()
	token := people.NewToken()
	entry, err := people.Entry(people.Person{Name: "ada", Role: people.Approver, Agents: []string{"review-*"}}, token)
	if err != nil {
		t.Fatal(err)
	}
	d, err := people.Parse([]byte(entry))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := d.Find(token); err != nil || p.Name != "ada" || p.Role != people.Approver {
		t.Errorf("Find = %+v, %v", p, err)
	}
	for _, wrong := range []string{"", people.Hash(token), token + "x"} {
		if p, err := d.Find(wrong); !errors.Is(err, people.ErrUnknown) {
			t.Errorf("Find(%q) = %+v, %v", wrong, p, err)
		}
	}
}

func TestABadFileIsRefused(t *testing.T) {
	t.Parallel()
	hash := people.Hash("x")
	one := "- {name: ada, role: user, token: '" + hash + "'}\n"
	for text, want := range map[string]string{
		"":                      "the file is empty",
		"people: []":            "the list is empty",
		"persons: []":           "unknown field",
		"people:\n" + one + one: "same name",
		"people:\n" + one + strings.Replace(one, "ada", "bob", 1):                     "same token",
		"people:\n" + strings.Replace(one, "user", "root", 1):                         "viewer, user, approver or operator",
		"people:\n" + strings.Replace(one, hash, "secret", 1):                         "turnlog gateway token",
		"people:\n- {name: '', role: user, token: '" + hash + "'}":                    "name",
		"people:\n- {name: \"a\\nb\", role: user, token: '" + hash + "'}":             "one line",
		"people:\n- {name: ada, role: user, token: '" + hash + "', password: secret}": "unknown field",
	} {
		if _, err := people.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestABadLoginIsRefused(t *testing.T) {
	t.Parallel()
	const good = "oidc: {issuer: https://id.example.com, client: c, key: k, url: https://t.example.com, claim: groups, roles: [{value: a, role: user}]}"
	if _, err := people.Parse([]byte(good)); err != nil {
		t.Error(err)
	}
	for _, row := range [][3]string{
		{"https://id.example.com", "http://id.example.com", "https"},
		{"https://id.example.com", "id.example.com", "https"},
		{"https://t.example.com", "https://t.example.com/turnlog", "path"},
		{"client: c", "client: ''", "client"},
		{"key: k", "key: ''", "random"},
		{"claim: groups, ", "", "claim"},
		{"role: user", "role: root", "viewer, user, approver or operator"},
		{"value: a", "value: ''", "value"},
		{"[{value: a, role: user}]", "[]", "roles"},
		{"claim: groups", "claims: groups", "unknown field"},
	} {
		if _, err := people.Parse([]byte(strings.Replace(good, row[0], row[1], 1))); err == nil || !strings.Contains(err.Error(), row[2]) {
			t.Errorf("%s: %v, want %q", row[1], err, row[2])
		}
	}
}

func TestTheFirstRoleThatFitsCounts(t *testing.T) {
	t.Parallel()
	l := people.Login{Roles: []people.Grant{{Value: "a", Role: people.Approver, Agents: []string{"review-*"}}, {Value: "b", Role: people.Operator}}}
	for _, row := range []struct {
		values []string
		want   people.Role
	}{{[]string{"b", "a"}, people.Approver}, {[]string{"b"}, people.Operator}, {[]string{"*", "A"}, ""}, {nil, ""}} {
		p, err := l.Person("ada", row.values, time.Time{})
		if row.want == "" && !errors.Is(err, people.ErrNoRole) || row.want != "" && (err != nil || p.Role != row.want) {
			t.Errorf("%v: %+v, %v", row.values, p, err)
		}
	}
	l.Roles = append(l.Roles, people.Grant{Value: people.Everybody, Role: people.Viewer})
	if p, err := l.Person("ada", nil, time.Time{}); err != nil || p.Role != people.Viewer {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := l.Person("a\nb", nil, time.Time{}); !errors.Is(err, people.ErrNoRole) {
		t.Error(err)
	}
}

// A meter removes idle people, so many one-time senders do not fill the memory.
func TestAMeterForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := people.NewMeter(1, 1)
		held, _ := m.Begin("held")
		for i := range 100_000 {
			if end, _ := m.Begin(strconv.Itoa(i)); end == nil {
				t.Fatal(i)
			} else {
				end()
			}
			if i%1000 == 0 {
				<-time.After(time.Minute)
			}
		}
		if n := m.Known(); n > 4000 {
			t.Errorf("%d people", n)
		}
		if end, wait := m.Begin("held"); end != nil || wait != 0 {
			t.Error("a second request at once")
		}
		held()
		if end, _ := m.Begin("held"); end == nil {
			t.Error("no request after the first one")
		}
	})
}
