package tests

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent/eval"
	"github.com/turnlog/turnlog/client/webhooks"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/skill"
)

// readers are all readers of YAML that people write.
var readers = map[string]func(t *testing.T, text string) error{
	"agent file": func(_ *testing.T, text string) error {
		_, err := agentfile.Parse("a.yaml", []byte(text), nil)
		return err
	},
	"endpoints of webhooks": func(_ *testing.T, text string) error {
		_, err := webhooks.Parse([]byte(text), os.Getenv)
		return err
	},
	"manifest of a tool": func(t *testing.T, text string) error {
		t.Helper()
		_, err := exec.New(t.TempDir(), "m.yaml", []byte(text), exec.Options{})
		return err
	},
	"people of a gateway": func(_ *testing.T, text string) error {
		_, err := people.Parse([]byte(text))
		return err
	},
	"policy": func(_ *testing.T, text string) error {
		_, err := permission.ParseDeployment([]byte(text), nil)
		return err
	},
	"prices": func(t *testing.T, text string) error {
		t.Helper()
		file := written(t, "prices.yaml", text)
		_, err := registry.New(func(string) string { return file }).Prices()
		return err
	},
	"script of a model": func(_ *testing.T, text string) error {
		_, err := scripted.Parse("s.yaml", []byte(text))
		return err
	},
	"settings": func(t *testing.T, text string) error {
		t.Helper()
		_, err := settings.Read(written(t, "turnlog.yaml", text))
		return err
	},
	"skill": func(t *testing.T, text string) error {
		t.Helper()
		folder := filepath.Dir(written(t, "SKILL.md", "---\n"+text+"\n---\nText.\n"))
		source, err := skill.New(filepath.Dir(filepath.Dir(folder)), filepath.Base(filepath.Dir(folder)))
		if err != nil {
			return err
		}
		_, problems, err := source.List(t.Context())
		for _, p := range problems {
			if p.Folder == path.Join(filepath.Base(filepath.Dir(folder)), filepath.Base(folder)) {
				err = p.Err
			}
		}
		return err
	},
	"suite": func(t *testing.T, text string) error {
		t.Helper()
		_, err := eval.Load(written(t, "suite.yaml", text))
		return err
	},
}

// A few hundred bytes of YAML can expand to any amount of memory, or take the parser minutes. All readers reject
// them.
func TestSmallYAMLStaysSmall(t *testing.T) {
	t.Parallel()
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [lol, lol]\n")
	for n := range 60 {
		fmt.Fprintf(&laughs, "a%d: &a%d [*a%d, *a%d]\n", n+1, n+1, n, n)
	}
	for name, read := range readers {
		for _, tc := range []struct{ text, want string }{
			{laughs.String(), "anchors, aliases and tags of YAML are refused"},
			{"a: *a\n", "anchors, aliases and tags of YAML are refused"},
			{"a: !!binary bG9s\n", "anchors, aliases and tags of YAML are refused"},
			{"a: " + strings.Repeat("[", 20_000), "nest deeper than 64"},
			{"a:\n  " + strings.Repeat("- ", 20_000), "nest deeper than 64"},
			{"a: \xff\n", "not UTF-8 text"},
			{"a: \x00\n", "not UTF-8 text"},
		} {
			if err := read(t, tc.text); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s of %.40q: %v, want %q", name, tc.text, err, tc.want)
			}
		}
	}
}

// written writes a file into a folder of its own and returns its path.
func written(t *testing.T, name, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
