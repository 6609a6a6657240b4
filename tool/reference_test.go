package tool_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnlog/turnlog/tool"
)

func TestReferencesAreResolved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	env := func(name string) string { return map[string]string{"SET": "value"}[name] }
	for value, want := range map[string]string{"plain": "plain", "env:SET": "value", write("good", " token\n"): "token"} {
		if got, err := tool.ResolveReference(value, env); got != want || err != nil {
			t.Errorf("%s = %q, %v", value, got, err)
		}
	}
	for _, value := range []string{"env:UNSET", write("empty", "\n"), "file:" + dir + "/none"} {
		if got, err := tool.ResolveReference(value, env); err == nil {
			t.Errorf("%s = %q", value, got)
		}
	}
}
