package content

import "testing"

func TestAClaimIsShownAsOne(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]struct{ user, claim string }{
		"":                        {"", ""},
		"ada (claimed)":           {"", "ada"},
		"ada":                     {"ada", "ada"},
		"web":                     {"web", ""},
		"web (claims to be ada)":  {"web", "ada"},
		"ada (claimed) (claimed)": {"", "ada (claimed)"},
	} {
		if got := Sender(s.user, s.claim); got != want {
			t.Errorf("Sender(%q, %q) = %q, want %q", s.user, s.claim, got, want)
		}
	}
}
