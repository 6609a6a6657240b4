package registry

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamesAreParsedAndPrinted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Ref{
		"demo":               {Provider: "demo"},
		"scripted:C:\\x.yml": {Provider: "scripted", Model: "C:\\x.yml"},
		"p:m?a=1&b=x%20y":    {Provider: "p", Model: "m", Options: url.Values{"a": {"1"}, "b": {"x y"}}},
		"p?a=":               {Provider: "p", Options: url.Values{"a": {""}}},
	} {
		got, err := parseRef(name)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("parseRef(%s): %v (-want +got):\n%s", name, err, diff)
		}
		again, err := parseRef(got.String())
		if diff := cmp.Diff(want, again); diff != "" || err != nil {
			t.Errorf("parseRef(%s): %v (-want +got):\n%s", got.String(), err, diff)
		}
	}
	for name, want := range map[string]string{
		"p:m?":        `model "p:m?": option "": write option=value`,
		"p:m?a":       `option "a": write option=value`,
		"p:m?=1":      `option "=1": write option=value`,
		"p:m?a=1&a=2": `option "a" is given twice`,
		"p:m?a=%zz":   `options: invalid URL escape`,
	} {
		if _, err := parseRef(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseRef(%s) = %v, want %q", name, err, want)
		}
	}
}
