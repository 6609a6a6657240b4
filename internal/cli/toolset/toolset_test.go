package toolset

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fetch"
	"github.com/turnlog/turnlog/tool/tooltest"
)

// all enables everything in every set.
func all(t *testing.T) Options {
	t.Helper()
	return Options{Root: t.TempDir(), AllowWrite: true, Fetch: fetch.Options{Hosts: []string{"example.com"}, Timeout: time.Second}}
}

func TestSetsShareNoNames(t *testing.T) {
	t.Parallel()
	sources, err := open(Names(), all(t))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, s := range sources {
		tools, err := s.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		total += len(tools)
	}
	c, err := tool.Sample(t.Context(), sources, tool.FirstWins)
	if err != nil || len(c.Offers) != total || total < 5 {
		t.Errorf("%d tools under %d names, %v", total, len(c.Offers), err)
	}
}

func TestEveryToolHoldsTheContract(t *testing.T) {
	t.Parallel()
	for _, s := range Sets() {
		tools, err := s.Open(all(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tools {
			t.Run(x.Spec().Name, func(t *testing.T) { tooltest.Run(t, x) })
		}
	}
}

// program parses the flags and opens the tools.
func program(t *testing.T, f *Flags) *cobra.Command {
	t.Helper()
	root := &cobra.Command{Use: "prog"}
	work := &cobra.Command{Use: "work", RunE: func(*cobra.Command, []string) error {
		started, err := f.Start(t.Context(), Agents{}, "test", clitest.NoEnv, zap.NewNop())
		if err != nil {
			return cli.Usage("%w", err)
		}
		started.Close()
		return nil
	}}
	f.Register(work, DefaultSet)
	root.AddCommand(work)
	return root
}

func run(t *testing.T, f *Flags, args ...string) (code int, printed string) {
	t.Helper()
	root, out := program(t, f), clitest.NewScreen()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(out)
	return cli.Execute(t.Context(), root), out.String()
}

func TestEachSetIsOpenedOnce(t *testing.T) {
	t.Parallel()
	var f Flags
	code, printed := run(t, &f, "work", "--tools", "shell, fs", "--tools", "fs", "--root", t.TempDir())
	if code != 0 || strings.Join(f.Sets(), " ") != "fs shell" {
		t.Errorf("code %d, sets %q, printed %q", code, f.Sets(), printed)
	}
	for args, want := range map[string]string{
		"--tools fs,nope":                 `--tools: unknown set of tools "nope": use ` + strings.Join(Names(), ", "),
		"--tools=":                        "--tools: name at least one of " + strings.Join(Names(), ", ") + ", or none",
		"--tools none,fs":                 "--tools: none cannot be combined with sets",
		"--tools none --allow-command ls": "--allow-command needs the tool set shell: add it to --tools",
		"--root /no/such/dir":             "--root /no/such/dir: no such directory",
	} {
		if code, printed := run(t, new(Flags), append([]string{"work"}, strings.Fields(args)...)...); code != cli.CodeUsage || !strings.Contains(printed, want) {
			t.Errorf("%s = %d %q, want %q", args, code, printed, want)
		}
	}
}

func TestToolsNone(t *testing.T) {
	t.Parallel()
	var f Flags
	code, printed := run(t, &f, "work", "--tools", "none", "--root", t.TempDir())
	if code != 0 || len(f.Sets()) != 0 {
		t.Errorf("code %d, sets %q, printed %q", code, f.Sets(), printed)
	}
	var verified Flags
	verified.Register(&cobra.Command{}, DefaultSet)
	verified.sets, verified.Root = []string{"none"}, t.TempDir()
	verified.RunVerifiers()
	if sources, err := verified.open(t.Context()); err != nil || len(sources) != 1 || sources[0].Name() != verifierSet {
		t.Errorf("with verifiers: %v, %v", sources, err)
	}
}

func TestSetsAreCompleted(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"": "fs\t", "fs,": "fs,shell\t"} {
		if _, out := run(t, new(Flags), "__complete", "work", "--tools", typed); !strings.HasPrefix(out, want) {
			t.Errorf("%q is completed to %q", typed, out)
		}
	}
}
