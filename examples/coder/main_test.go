package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/session"
)

func TestTheRepositoryIsChangedAsItIsApproved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answers  string
		verified       bool
		condition, new string // of the discount; the first line of CHANGES.md
	}{
		{"all", "y\ny\ny\ny\nn\n", true, "l.Count >= 10", "- Ten pieces of an article get the discount, too."},
		{"only the wrong edit", "n\ny\nthat is not right, either\nn\nn\n", false, "l.Count > 8", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root, err := sample(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(root) })
			var out strings.Builder
			err = run(t.Context(), []string{"--root", root, "--model", "scripted:offline.yaml", sampleGoal}, strings.NewReader(c.answers), &out)
			if _, failed := errors.AsType[*session.ProviderError](err); c.verified != (err == nil) || c.verified == failed {
				t.Errorf("run: %v\n%s", err, out.String())
			}
			if text := read(t, root, "cart.go"); !strings.Contains(text, c.condition) {
				t.Errorf("cart.go has no %q:\n%s", c.condition, text)
			}
			if text := strings.TrimSpace(read(t, root, "CHANGES.md")); text != c.new {
				t.Errorf("CHANGES.md says %q, want %q", text, c.new)
			}
			if shown := strings.Contains(out.String(), "+\t\tif "+c.condition); !shown {
				t.Errorf("the diff is not shown:\n%s", out.String())
			}
		})
	}
}

func TestTheEndOfInputMeansNo(t *testing.T) {
	t.Parallel()
	root, err := sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	before := read(t, root, "cart.go")
	var out strings.Builder
	err = run(t.Context(), []string{"--root", root, "--model", "scripted:offline.yaml", sampleGoal}, strings.NewReader("y\n"), &out)
	if err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("run: %v, want one that mentions --yes\n%s", err, out.String())
	}
	if after := read(t, root, "cart.go"); after != before {
		t.Errorf("cart.go was changed:\n%s", after)
	}
}

// read returns the content of a file, or "" if it does not exist.
func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}
