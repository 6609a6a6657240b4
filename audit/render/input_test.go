package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInputsAreShownInFull(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 1000)
	for name, c := range map[string]struct{ input, want string }{
		"members in their order, also repeated ones": {
			`{"b": [1, 2], "a": "x", "a": null}`, "    b: [1,2]\n    a: \"x\"\n    a: null\n",
		},
		"a text of several lines":          {`{"t":"one\n\ttwo\u001b[2K\r\n"}`, "    t:\n        one\n        \ttwo\\x1b[2K\\r\n"},
		"a text that reverses the display": {"{\"t\":\"\u202egpj.exe\"}", "    t: \"\\u202egpj.exe\"\n"},
		"an edit, as what changes": {
			`{"path":"f","old":"a\nb\nc","new":"a\nB\nc"}`,
			"    path: \"f\"\n    old → new:\n        @@ -1,3 +1,3 @@\n         a\n        -b\n        +B\n         c\n",
		},
		"an edit with two new texts, as it is": {`{"old":"a","new":"b","new":"c"}`, "    old: \"a\"\n    new: \"b\"\n    new: \"c\"\n"},
		"a long text":                          {`{"t":"` + long + `"}`, "    t: \"" + long + "\"\n"},
		"no object":                            {`["a"]`, "    [\"a\"]\n"},
		"no JSON":                              {"{\x1b", "    {\\x1b\n"},
	} {
		if diff := cmp.Diff(c.want, Input(Style{}, json.RawMessage(c.input))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAChangeIsColored(t *testing.T) {
	t.Parallel()
	got := Change(Style{Color: true}, "f", "a\n", "b\n")
	for _, want := range []string{"\x1b[31m-a\x1b[0m", "\x1b[32m+b\x1b[0m"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q has no %q", got, want)
		}
	}
}
