package content

import (
	"errors"
	"strings"
	"testing"
)

func TestSessionIDsAreTokens(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"s", "S-1_x", "01JABC", strings.Repeat("a", 128)} {
		if id, err := ParseSessionID(good); err != nil || string(id) != good {
			t.Errorf("ParseSessionID(%q) = %q, %v", good, id, err)
		}
	}
	for _, bad := range []string{"", "a.b", "a b", "*", ">", "é", "a\n", "a/b", strings.Repeat("a", 129)} {
		if id, err := ParseSessionID(bad); !errors.Is(err, ErrBadID) || id != "" {
			t.Errorf("ParseSessionID(%q) = %q, %v, want ErrBadID", bad, id, err)
		}
	}
}

func TestIDsAreDerivedFromTheirPlace(t *testing.T) {
	t.Parallel()
	if got := TurnIDFor(12); got != "turn-12" {
		t.Errorf("TurnIDFor(12) = %s", got)
	}
	p := PlaceOf(3, 20, 1)
	if p != "t3-r20-c1" || !IsToken(string(p)) {
		t.Errorf("PlaceOf(3, 20, 1) = %s", p)
	}
	turn, round, call, err := ParsePlace(string(p))
	if turn != 3 || round != 20 || call != 1 || err != nil {
		t.Errorf("ParsePlace(%s) = %d, %d, %d, %v", p, turn, round, call, err)
	}
}

func TestOnlyPlacesParse(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "t1", "t1-r1", "t1-r1-c1-g1", "r1-t1-c1", "t0-r1-c1", "t1-r-1-c1", "t01-r1-c1", "t+1-r1-c1", "t1-r1-cx",
		"t1-r1-c99999999999999999999", " t1-r1-c1",
	} {
		if _, _, _, err := ParsePlace(bad); !errors.Is(err, ErrBadID) {
			t.Errorf("ParsePlace(%q) = %v, want ErrBadID", bad, err)
		}
	}
}

func TestACallKeepsTheModelsIDWhereItIsUsable(t *testing.T) {
	t.Parallel()
	place := PlaceOf(1, 1, 2)
	taken := func(id CallID) bool { return id == "call_1" }
	for provider, want := range map[string]CallID{
		"call_2":                 "call_2",
		"call_1":                 CallID(place), // used before
		"":                       CallID(place),
		"toolu/01":               CallID(place), // no token
		"t1-r1-c1":               CallID(place), // of another call
		"t1-r1-c1-g1":            CallID(place), // of a question about it
		"t9-v1":                  CallID(place), // of a verifier
		"t1-x":                   "t1-x",
		"toolu_01":               "toolu_01",
		strings.Repeat("x", 129): CallID(place),
	} {
		if got := CallIDFor(provider, place, taken); got != want {
			t.Errorf("CallIDFor(%q) = %s, want %s", provider, got, want)
		}
	}
}
