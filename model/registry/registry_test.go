package registry_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/registry"
)

const script = "replies:\n  - text: hello\n"

func TestOpen(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hello.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, data, want string
	}{
		{"demo", "", "demo"},
		{"scripted:" + file, "", "scripted:hello.yaml"},
		{"scripted:not/there.yaml", script, "scripted:there.yaml"},
	} {
		var data []byte
		if tt.data != "" {
			data = []byte(tt.data)
		}
		m, err := registry.Open(tt.name, data)
		if err != nil || m.Name() != tt.want {
			t.Errorf("Open(%s) = %v, %v; want %s", tt.name, m, err, tt.want)
		}
	}
}

func TestDataMakesTheSameModelElsewhere(t *testing.T) {
	t.Parallel()
	m, err := registry.Open("scripted:x.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	again, err := registry.Open("scripted:x.yaml", registry.Data(m))
	if err != nil {
		t.Fatal(err)
	}
	reply, err := again.Call(t.Context(), model.Request{}, func(content.Delta) {})
	if err != nil || reply.Items[0].Text() != "hello" {
		t.Errorf("Call = %+v, %v; want hello", reply, err)
	}
	d, err := registry.Open("demo", nil)
	if err != nil || registry.Data(d) != nil {
		t.Errorf("Data(demo) = %q, %v; want none", registry.Data(d), err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, data, want string
	}{
		{"", "", "no model is named: use demo or scripted:FILE"},
		{":x", "", `model ":x": no provider`},
		{"gpt:5", "", `model "gpt:5": unknown provider "gpt": use demo or scripted:FILE`},
		{"Demo", "", `unknown provider "Demo"`},
		{"demo:large", "", `model demo:large: there is one demo model: write demo, without "large"`},
		{"demo", script, "model demo: the demo model takes no data, but 25 bytes came along"},
		{"demo?speed=9", "", `model "demo?speed=9": unknown option "speed": demo has none`},
		{"scripted", "", "model scripted: which script? write scripted:FILE"},
		{"scripted:", "", "model scripted: which script? write scripted:FILE"},
		{"scripted:none.yaml", "", "model scripted:none.yaml: script none.yaml: no such file or directory"},
		{"scripted:x.yaml", "replies: 1", "model scripted:x.yaml: script x.yaml:1:10: replies: want a list, not a number"},
	} {
		var data []byte
		if tt.data != "" {
			data = []byte(tt.data)
		}
		m, err := registry.Open(tt.name, data)
		if err == nil || m != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Open(%q) = %v, %v; want %q", tt.name, m, err, tt.want)
		}
	}
}

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

// opened is a model that remembers how it was opened.
type opened struct {
	ref  registry.Ref
	data string
}

func (o opened) Name() string                   { return o.ref.String() }
func (opened) Capabilities() model.Capabilities { return model.Capabilities{} }
func (opened) Call(context.Context, model.Request, func(content.Delta)) (model.Reply, error) {
	return model.Reply{}, nil
}

func TestProvidersOfOnesOwn(t *testing.T) {
	t.Parallel()
	providers := append(registry.Providers(), registry.Provider{
		Name: "own", Usage: "own:NAME", Options: []string{"url", "key"},
		Open: func(ref registry.Ref, data []byte) (model.Model, error) { return opened{ref, string(data)}, nil },
	})
	m, err := registry.OpenFrom(providers, "own:big?url=u", []byte("d"))
	if err != nil {
		t.Fatal(err)
	}
	o, ok := m.(opened)
	if url, given := o.ref.Option("url"); !ok || o.ref.Model != "big" || url != "u" || !given || o.data != "d" {
		t.Errorf("opened %+v, want own:big with an url and data", m)
	}
	if _, given := o.ref.Option("key"); given {
		t.Error("an option that was not given is there")
	}
	for name, want := range map[string]string{
		"own:big?urk=u": `unknown option "urk": own has url, key`,
		"none":          "use demo, scripted:FILE or own:NAME",
	} {
		if _, err := registry.OpenFrom(providers, name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("OpenFrom(%s) = %v, want %q", name, err, want)
		}
	}
}
