package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/model/registry"
)

func TestParseRef(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]registry.Ref{
		"demo":               {Provider: "demo"},
		"scripted:C:\\x.yml": {Provider: "scripted", Model: "C:\\x.yml"},
		"p:m?a=1&b=x%20y":    {Provider: "p", Model: "m", Options: []registry.Option{{Key: "a", Value: "1"}, {Key: "b", Value: "x y"}}},
		"p?a=":               {Provider: "p", Options: []registry.Option{{Key: "a"}}},
	} {
		got, err := registry.ParseRef(name)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("ParseRef(%s): %v (-want +got):\n%s", name, err, diff)
		}
		again, err := registry.ParseRef(got.String())
		if diff := cmp.Diff(want, again); diff != "" || err != nil {
			t.Errorf("ParseRef(%s): %v (-want +got):\n%s", got.String(), err, diff)
		}
	}
	for name, want := range map[string]string{
		"p:m?":        `model "p:m?": option "": write option=value`,
		"p:m?a":       `option "a": write option=value`,
		"p:m?=1":      `option "=1": write option=value`,
		"p:m?a=1&a=2": `option "a" is given twice`,
		"p:m?a=%zz":   `option "a=%zz": invalid URL escape`,
	} {
		if _, err := registry.ParseRef(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRef(%s) = %v, want %q", name, err, want)
		}
	}
}
