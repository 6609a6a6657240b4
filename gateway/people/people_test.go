package people_test

import (
	"errors"
	"strings"
	"testing"

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
		"":                      "there are none",
		"people: []":            "there are none",
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
