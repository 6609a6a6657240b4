package registry_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/fallback"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/model/registry"
)

const (
	script = "replies:\n  - text: hello\n"
	canary = "sk-canary-0123456789"
)

// env is an environment.
type env map[string]string

func (e env) get(name string) string { return e[name] }

// keys has the keys of all providers.
func keys() env {
	return env{"ANTHROPIC_API_KEY": canary, "OPENAI_API_KEY": canary, "GEMINI_API_KEY": canary}
}

// file writes a file and returns its name.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func bytesOf(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

func TestNamesOpenModels(t *testing.T) {
	t.Parallel()
	hello := file(t, "hello.yaml", script)
	r := registry.New(keys().get)
	for _, tt := range []struct {
		name, data, want string
	}{
		{"demo", "", "demo"},
		{"scripted:" + hello, "", "scripted:hello.yaml"},
		{"scripted:not/there.yaml", script, "scripted:there.yaml"},
		{"anthropic:claude-sonnet-5-5", "", "anthropic:claude-sonnet-5-5"},
		{"anthropic:claude-sonnet-5-5?max_tokens=9000&temperature=0.5&thinking=2048&effort=low&cache=short&compact_at=60000&strict=true&eager_input=true&context=100000", "", "anthropic:claude-sonnet-5-5"},
		{"openai:gpt-5?api=chat&max_tokens=10&temperature=1&effort=low&context=5&usage=false", "", "openai:gpt-5"},
		{"openai:gpt-5?summary=auto&compact=9", "", "openai:gpt-5"},
		{"openai:llama?base_url=http://127.0.0.1:11434/v1", "", "openai:llama"},
		{"gemini:gemini-flash-latest?max_tokens=9&temperature=2&thinking_budget=-1&thoughts=true&context=7", "", "gemini:gemini-flash-latest"},
		{"gemini:gemini-3-pro?thinking_level=high&base_url=http://127.0.0.1:1", "", "gemini:gemini-3-pro"},
		{"fallback:demo,scripted:" + hello, "", "fallback:demo,scripted:hello.yaml"},
		{"fallback:openai:gpt-5%3Fapi=chat,demo?on=auth,server", "", "fallback:openai:gpt-5,demo"},
		{"record:" + filepath.Join(t.TempDir(), "t.jsonl") + "?model=demo", "", "record:t.jsonl"},
	} {
		m, err := r.Open(tt.name, bytesOf(tt.data))
		if err != nil || m.Name() != tt.want {
			t.Errorf("Open(%s) = %v, %v; want %s", tt.name, m, err, tt.want)
		}
	}
}

func TestDataMakesTheSameModelElsewhere(t *testing.T) {
	t.Parallel()
	r := registry.New(nil)
	tape := filepath.Join(t.TempDir(), "t.jsonl")
	recorded := "record:" + tape + "?model=scripted:" + file(t, "a.yaml", script)
	ask(t, open(t, r.Open, recorded, nil), "hello")
	for _, name := range []string{
		"scripted:" + file(t, "b.yaml", script),
		"fallback:scripted:" + file(t, "c.yaml", "replies:\n  - error: {class: overloaded, message: busy}\n") + ",scripted:" + file(t, "d.yaml", script),
		"replay:" + tape,
	} {
		m := open(t, r.Open, name, nil)
		ask(t, m, "hello")
		ask(t, open(t, r.OpenShared, name, registry.Data(m)), "hello")
		if _, err := r.OpenShared(name, nil); err == nil || !strings.Contains(err.Error(), "without the") {
			t.Errorf("OpenShared(%s) = %v, want that its file is not read", name, err)
		}
	}
	for _, name := range []string{"demo", "fallback:demo,demo", recorded} {
		if data := registry.Data(open(t, r.Open, name, nil)); data != nil {
			t.Errorf("Data(%s) = %q, want none", name, data)
		}
	}
}

func open(t *testing.T, with func(string, []byte) (model.Model, error), name string, data []byte) model.Model {
	t.Helper()
	m, err := with(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(t *testing.T, m model.Model, want string) {
	t.Helper()
	reply, err := m.Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
	if err != nil || len(reply.Items) == 0 || reply.Items[0].Text() != want {
		t.Errorf("%s: Call = %+v, %v; want %s", m.Name(), reply, err, want)
	}
}

func TestInvalidNamesAreRejected(t *testing.T) {
	t.Parallel()
	r := registry.New(keys().get)
	for _, tt := range []struct {
		name, data, want string
	}{
		{"", "", "no model: use anthropic:MODEL, openai:MODEL, gemini:MODEL, fallback:NAME,NAME, record:FILE?model=NAME, replay:FILE, scripted:FILE or demo"},
		{":x", "", `model ":x": no provider`},
		{"gpt:5", "", `model "gpt:5": unknown provider "gpt": use anthropic:MODEL`},
		{"Demo", "", `unknown provider "Demo": did you mean demo?`},
		{"antropic:x", "", `model "antropic:x": unknown provider "antropic": did you mean anthropic?`},
		{"claude-x?effort=low", "", `unknown provider "claude-x": did you mean anthropic:claude-x?effort=low?`},
		{"openai:x?effrt=low", "", `unknown option "effrt": did you mean effort?`},
		{"demo:large", "", `model demo:large: there is one demo model: write demo, without "large"`},
		{"demo", script, "model demo: the demo model takes no data, but got 25 bytes"},
		{"demo?speed=9", "", `model "demo?speed=9": unknown option "speed": demo has none`},
		{"scripted", "", "model scripted: which script? write scripted:FILE"},
		{"scripted:", "", "model scripted: which script? write scripted:FILE"},
		{"scripted:none.yaml", "", "model scripted:none.yaml: script: open none.yaml: no such file or directory"},
		{"scripted:x.yaml", "replies: 1", "model scripted:x.yaml: script x.yaml:1:10: int was used where sequence is expected"},
		{"openai", "", "model openai: which model? write openai:MODEL"},
		{"openai:x", script, "the openai model takes no data"},
		{"openai:x?max_tokens=many", "", "option max_tokens=many: want a whole number"},
		{"openai:x?temperature=hot", "", "option temperature=hot: want a number"},
		{"openai:x?usage=maybe", "", "option usage=maybe: want true or false"},
		{"openai:x?api=soap", "", "option api=soap: want responses, chat"},
		{"openai:x?thinking=1", "", `unknown option "thinking": openai has api, `},
		{"anthropic:x?thinking=a+lot", "", "thinking"},
		{"gemini:x?thinking_level=huge", "", "option thinking_level=huge"},
		{"gemini:x?base_url=", "", "option base_url: give a URL"},
		{"gemini:x?base_url=here", "", "base_url: want http"},
		{"fallback", "", "which models? write fallback:NAME,NAME"},
		{"fallback:demo,", "", "no model"},
		{"fallback:demo,gpt:5", "", `unknown provider "gpt"`},
		{"fallback:demo,%zz", "", "name 2: invalid URL escape"},
		{"fallback:demo?on=rain", "", `unknown class "rain"`},
		{"fallback:demo,demo", "[]", "the data is for 0 models, want 2"},
		{"fallback:demo,demo", "x", "the models' data: invalid"},
		{"record:x", "", "write record:FILE?model=NAME"},
		{"record:x?model=demo", script, "the record model takes no data, but got 25 bytes"},
		{"record:x?model=gpt:5", "", `unknown provider "gpt"`},
		{"record:no/where/x?model=demo", "", "no directory no/where"},
		{"replay", "", "which cassette? write replay:FILE"},
		{"replay:none.jsonl", "", "cassette: open none.jsonl: no such file"},
		{"replay:x", "nonsense", "line 1: not the header of a cassette"},
		{"replay:x?match=fuzzy", "", "match=fuzzy: use strict"},
	} {
		m, err := r.Open(tt.name, bytesOf(tt.data))
		if err == nil || m != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Open(%q) = %v, %v; want %q", tt.name, m, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("Open(%q): the key is in %q", tt.name, err)
		}
	}
}

func TestSharedNamesAreHarmless(t *testing.T) {
	t.Parallel()
	r := registry.New(keys().get)
	hello := file(t, "hello.yaml", script)
	for name, want := range map[string]string{
		"openai:x?base_url=http://127.0.0.1:1":                   "set OPENAI_BASE_URL on the node",
		"anthropic:x?base_url=http://127.0.0.1:1":                "set ANTHROPIC_BASE_URL on the node",
		"fallback:demo,gemini:x%3Fbase_url=http://127.0.0.1:1":   "set GOOGLE_GEMINI_BASE_URL on the node",
		"scripted:" + hello:                                      "Start the session with --agent FILE or --model scripted:FILE",
		"replay:" + hello:                                        "Start the session with --agent FILE or --model replay:FILE",
		"record:" + hello + "?model=demo":                        "does not write files",
		"fallback:demo,record:" + hello + "%3Fmodel=demo":        "does not write files",
		"fallback:demo,scripted:" + hello + ",openai:gpt-5?on=x": "without the script's content",
	} {
		if m, err := r.OpenShared(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("OpenShared(%s) = %v, %v; want %q", name, m, err, want)
		}
	}
	if _, err := r.OpenShared("openai:gpt-5?api=chat", nil); err != nil {
		t.Error(err)
	}
}

func TestAProviderCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	all := registry.New(nil)
	without := all.Without("scripted", "no scripts here")
	for _, name := range []string{"scripted:s", "fallback:demo,scripted:s"} {
		data := []byte(script)
		if strings.HasPrefix(name, "fallback") {
			m, err := all.Open("fallback:demo,scripted:"+file(t, "s", script), nil)
			if err != nil {
				t.Fatal(err)
			}
			data = registry.Data(m)
		}
		if _, err := all.OpenShared(name, data); err != nil {
			t.Errorf("OpenShared of %s = %v", name, err)
		}
		if m, err := without.OpenShared(name, data); err == nil || !strings.Contains(err.Error(), "no scripts here") {
			t.Errorf("OpenShared of %s without scripts = %v, %v", name, m, err)
		}
	}
	if _, err := without.OpenShared("demo", nil); err != nil {
		t.Errorf("the demo model: %v", err)
	}
}

func TestFallbackNamesCanBeParsed(t *testing.T) {
	t.Parallel()
	if got := fallback.Name("demo"); got != "demo" {
		t.Errorf("of one: %q", got)
	}
	name := fallback.Name("openai:gpt-5?api=chat&max_tokens=5", "fallback:demo,demo", "demo")
	if want := "fallback:openai:gpt-5%3Fapi=chat&max_tokens=5,fallback:demo%2Cdemo,demo"; name != want {
		t.Errorf("%q, want %q", name, want)
	}
	m := open(t, registry.New(keys().get).OpenShared, name, nil)
	if want := "fallback:openai:gpt-5,fallback:demo,demo,demo"; m.Name() != want {
		t.Errorf("%q, want %q", m.Name(), want)
	}
}

// opened is a model that keeps its setup.
type opened struct {
	setup registry.Setup
}

func (o opened) Name() string                   { return o.setup.Ref.String() }
func (opened) Capabilities() model.Capabilities { return model.Capabilities{} }
func (opened) Call(context.Context, model.Request, func(content.Delta)) (model.Reply, error) {
	return model.Reply{}, nil
}

func TestCustomProvidersCanBeOpened(t *testing.T) {
	t.Parallel()
	r := registry.New(env{"OWN": "v"}.get, registry.Provider{
		Name: "own", Usage: "own:NAME", Options: []string{"url", "key"},
		Open: func(s registry.Setup) (model.Model, error) { return opened{s}, nil },
	})
	o, ok := open(t, r.Open, "own:big?url=u", []byte("d")).(opened)
	if url, given := o.setup.Ref.Option("url"); !ok || o.setup.Ref.Model != "big" || url != "u" || !given || string(o.setup.Data) != "d" || o.setup.Getenv("OWN") != "v" {
		t.Errorf("opened %+v, want own:big with an url and data", o)
	}
	if _, given := o.setup.Ref.Option("key"); given {
		t.Error("an option that was not given is there")
	}
	for name, want := range map[string]string{
		"own:big?where=u": `unknown option "where": own has url, key`,
		"own:big?urk=u":   `unknown option "urk": did you mean url?`,
		"none":            "scripted:FILE, demo or own:NAME",
	} {
		if _, err := r.Open(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v, want %q", name, err, want)
		}
	}
}

func TestAMissingKeyIsNamed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"anthropic:x":            {"ANTHROPIC_API_KEY"},
		"openai:x":               {"OPENAI_API_KEY"},
		"gemini:x":               {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		"fallback:demo,gemini:x": {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
	} {
		_, err := registry.New(nil).Open(name, nil)
		missing, ok := errors.AsType[*registry.MissingError](err)
		if !ok || !missing.Elsewhere() {
			t.Errorf("Open(%s) = %v, want a *MissingError", name, err)
			continue
		}
		if diff := cmp.Diff(want, missing.Variables); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	if m, err := registry.New(env{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}.get).OpenShared("openai:llama", nil); err != nil {
		t.Errorf("a compatible server without a key: %v, %v", m, err)
	}
	if m, err := registry.New(env{"GOOGLE_API_KEY": canary}.get).Open("gemini:x", nil); err != nil {
		t.Errorf("the second variable: %v, %v", m, err)
	}
}

func TestACassetteHoldsNoKey(t *testing.T) {
	t.Parallel()
	tape := filepath.Join(t.TempDir(), "t.jsonl")
	leaky := file(t, "leaky.yaml", "replies:\n  - text: \"the key is "+canary+"\"\n")
	r := registry.New(keys().get)
	ask(t, open(t, r.Open, "record:"+tape+"?model=scripted:"+leaky, nil), "the key is "+canary)
	data, err := os.ReadFile(tape)
	if err != nil || strings.Contains(string(data), canary) {
		t.Errorf("%v\n%s", err, data)
	}
	ask(t, open(t, r.Open, "replay:"+tape, nil), "the key is [secret]")
}

func TestRelativeFilesAreResolvedAgainstTheFolder(t *testing.T) {
	t.Parallel()
	here := file(t, "hello.yaml", "replies: [{text: here}]")
	r := registry.New(nil)
	in := r.In(filepath.Dir(here))
	for _, name := range []string{"scripted:hello.yaml", "fallback:scripted:hello.yaml,demo", "scripted:" + here} {
		m, err := in.Open(name, nil)
		if err != nil || len(registry.Data(m)) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Open("scripted:hello.yaml", nil); err == nil {
		t.Error("it is found where the process is")
	}
}

func TestCheckNeedsNoKeys(t *testing.T) {
	t.Parallel()
	r := registry.New(env{"OPENAI_BASE_URL": "nonsense"}.get)
	for _, name := range []string{"demo", "openai:x?effort=low&max_tokens=5", "anthropic:x?thinking=off", "gemini:x", "fallback:demo,openai:x"} {
		if err := r.Check(name); err != nil {
			t.Errorf("Check(%q) = %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"openai": "which model?", "openai:x?temperature=hot": "want a number", "fallback:demo,gpt:5": "unknown provider",
		"record:x?model=gpt:5": "unknown provider", "scripted:none.yaml": "no such file", "demo?x=1": "unknown option",
		"anthropic:x?base_url=here": "http",
	} {
		if err := r.Check(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%q) = %v, want %q", name, err, want)
		}
	}
}

func TestMissingKeyErrorHasAHint(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"openai:x":    "OPENAI_API_KEY is not set in the environment of this process: set it, or set the address of a server that needs no key as OPENAI_BASE_URL",
		"anthropic:x": "ANTHROPIC_API_KEY is not set in the environment of this process: the server at http://proxy:8080/a gets a key, too; if it accepts any, use any text",
		"gemini:x":    "GEMINI_API_KEY or GOOGLE_API_KEY is not set in the environment of this process",
	} {
		_, err := registry.New(env{"ANTHROPIC_BASE_URL": "http://me:secret@proxy:8080/a"}.get).Open(name, nil)
		if err == nil || err.Error() != "model "+name+": "+want {
			t.Errorf("Open(%q) = %v, want %q", name, err, want)
		}
	}
}
