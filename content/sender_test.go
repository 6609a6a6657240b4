package content

import "testing"

func TestAClaimIsShownAsOne(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Sender{
		"":                    {},
		"ada (claimed)":       {Name: "ada"},
		"ada of account A":    {Name: "ada", Account: "A", Verified: true},
		"a user of account A": {Account: "A", Verified: true},
		"bob (claimed)":       SenderOf("bob", nil),
		"eve (claimed)":       SenderOf("bob", &Sender{Name: "eve"}),
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is shown as %q, want %q", s, got, want)
		}
	}
}
