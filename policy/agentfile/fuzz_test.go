package agentfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// Every file is an agent whose canonical form is the same agent, or has problems with
// positions in the file.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		full, "", "- a", "model: [", "a: &x {b: *x}", "<<: {model: a}\nname: b\n", "tools: [{name: x, permision: ask}, y]\nlimits: 5\n",
		"system: \"open\nname: A\n", "hooks:\n  - command: |\n      x\n    points: [pre_llm_call]\n", "? [a]\n: b\n", "name: !!str 5\n", "1: 2\n", "tools: !x y", "name: &a !x y\ntools: *a\n", "memory: &a {scope: all}\noutput: *a\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d *agentfile.Definition
		var err error
		if took := allocated.By(func() { d, err = agentfile.Parse("a.yaml", []byte(text), nil) }); took > 32<<20+int64(len(text))<<12 {
			t.Fatalf("parsing %d bytes took %d", len(text), took)
		}
		if err != nil {
			problems, ok := errors.AsType[agentfile.Problems](err)
			if !ok || len(problems) == 0 {
				t.Fatalf("%T %v", err, err)
			}
			lines := strings.Count(text, "\n") + 1
			for _, p := range problems {
				if p.Line < 0 || p.Line > lines+1 || p.Message == "" {
					t.Errorf("%d lines, and a problem %+v", lines, p)
				}
			}
			return
		}
		raw, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := agentfile.Parse("a.yaml", raw, nil)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if second, err := again.Encode(); err != nil || string(second) != string(raw) {
			t.Errorf("%s became %s, %v", raw, second, err)
		}
	})
}
