package toolset

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/output"
)

func manifest(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// tools opens the tools of a command line, by name.
func tools(t *testing.T, f *Flags, args ...string) map[string]tool.Tool {
	t.Helper()
	cmd := program(t, f)
	work, _, err := cmd.Find([]string{"work"})
	if err != nil {
		t.Fatal(err)
	}
	if err := work.ParseFlags(append(args, "--root", t.TempDir())); err != nil {
		t.Fatal(err)
	}
	started, err := f.Start(t.Context(), Agents{}, "test", clitest.NoEnv, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.Close)
	sources, err := started.Sources(output.NewMemory(0), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tool.Sample(t.Context(), sources, tool.ErrorOnCollision)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tool.Tool{}
	for _, o := range c.Offers {
		out[o.Spec.Name] = o.Tool
	}
	return out
}

func call(t *testing.T, x tool.Tool, in map[string]any) content.ToolResult {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invoke(t.Context(), x, tool.Call{Session: "s", Name: x.Spec().Name, Input: raw}).Result
}

func TestFlagsReachTheirTools(t *testing.T) {
	t.Parallel()
	var f Flags
	counts := manifest(t, "name: hello\ndescription: Hello.\ncommand: [sh, -c, 'echo $GREETING']\n")
	got := tools(t, &f, "--tools", "fs,shell,fetch", "--allow-write", "--read-before-write", "--pass-env", "GREETING=hi there",
		"--fetch-allow", "*", "--fetch-method", "GET", "--fetch-private", "10.0.0.1", "--tool-manifest", counts, "--output-limit", "300", "--sandbox", "auto")
	if r := call(t, got["hello"], nil); r.Text() != "hi there\n" {
		t.Errorf("manifest: %q", r.Text())
	}
	if r := call(t, got["shell_exec"], map[string]any{"script": "echo $GREETING"}); !strings.HasPrefix(r.Text(), "hi there\n") {
		t.Errorf("shell: %q", r.Text())
	}
	if r := call(t, got["http_fetch"], map[string]any{"url": "http://127.0.0.1:1"}); r.Code != "host_not_allowed" {
		t.Errorf("fetch, a port that is not the usual one: %q", r.Text())
	}
	if r := call(t, got["http_fetch"], map[string]any{"url": "http://127.0.0.1"}); r.Code != "address_not_allowed" {
		t.Errorf("fetch: %q", r.Text())
	}
	call(t, got["fs_write_file"], map[string]any{"path": "f", "content": strings.Repeat("0123456789\n", 100)})
	if r := call(t, got["fs_write_file"], map[string]any{"path": "f", "content": "y"}); r.Code != "read_first" {
		t.Errorf("write: %q", r.Text())
	}
	r := call(t, got["fs_read_file"], map[string]any{"path": "f"})
	_, after, _ := strings.Cut(r.Text(), `output_read, id "`)
	id, _, _ := strings.Cut(after, `"`)
	if r := call(t, got["output_read"], map[string]any{"id": id, "offset": 1000, "limit": 100}); !strings.HasPrefix(r.Text(), "output: bytes 1000 to 1100 of 11") {
		t.Errorf("read back: %q", r.Text())
	}
	name, why, none := strings.Cut(f.Sandbox(), ": ")
	if note := f.SandboxNote(); (name == sandbox.None) != none || !strings.HasSuffix(note, name) && !strings.HasSuffix(note, why) {
		t.Errorf("sandbox %q: %q", f.Sandbox(), note)
	}
	var plain Flags
	names := tools(t, &plain)
	if _, ok := names["output_read"]; ok || plain.SandboxNote() != "" {
		t.Error("a setting without its flag is on")
	}
}

func TestInvalidFlagsAreErrors(t *testing.T) {
	t.Parallel()
	clash := manifest(t, "name: fs_read_file\ndescription: X.\ncommand: [ls]\n")
	bad := manifest(t, "name: x\ndescription: X.\nfoo: 1\ncommand: [ls]\n")
	for line, want := range map[string]string{
		"--output-limit -1":                               "--output-limit -1: use a positive number, or 0",
		"--tools shell --read-before-write":               "--read-before-write needs the tool set fs",
		"--pass-env A":                                    "--pass-env needs commands: add shell or gate to --tools, or a --tool-manifest",
		"--sandbox none":                                  "--sandbox needs commands",
		"--tools shell --sandbox jail":                    `--sandbox: unknown sandbox "jail": use auto, none, bwrap`,
		"--tools shell --pass-env =x":                     `--pass-env: variable "=x": write NAME or NAME=value`,
		"--tools fetch":                                   "--tools fetch: name the allowed hosts with --fetch-allow, or * for any",
		"--fetch-allow x":                                 "--fetch-allow needs the tool set fetch",
		"--tools fetch --fetch-allow a/b":                 `--tools: fetch: http_fetch: host "a/b": write example.com`,
		"--tools fetch --fetch-allow a --fetch-method X":  `--tools: fetch: http_fetch: method "X": use one of GET`,
		"--tools fetch --fetch-allow a --fetch-private x": `--fetch-private "x": write an address or a range`,
		"--tool-manifest /no/such":                        "--tool-manifest: manifest: stat /no/such: no such file or directory",
		"--tool-manifest " + bad:                          `--tool-manifest: ` + bad + `:3: unknown field "foo"`,
		"--tool-manifest " + clash:                        `--tool-manifest: tool "fs_read_file" is offered twice: by source fs and by source manifests`,
	} {
		code, printed := run(t, new(Flags), append([]string{"work", "--root", t.TempDir()}, strings.Fields(line)...)...)
		if code != cli.CodeUsage || !strings.Contains(printed, want) {
			t.Errorf("%s = %d %q, want %q", line, code, printed, want)
		}
	}
}

// Verifiers run code that the model wrote, so they see no more than other commands.
func TestAVerifierRunsLikeAnyCommand(t *testing.T) {
	t.Setenv("TURNLOG_TEST_SECRET", "top secret")
	var f Flags
	got := tools(t, &f, "--tools", "fs,gate", "--pass-env", "GREETING=hi")
	r := call(t, got["turnlog_gate"], map[string]any{"argv": []string{"sh", "-c", "echo $GREETING $TURNLOG_TEST_SECRET; echo x >" + t.TempDir() + "/x && echo wrote"}})
	verdict := r.Text() + string(r.Output[0].Data)
	if strings.Contains(verdict, "secret") || !strings.Contains(verdict, "hi") {
		t.Errorf("verdict = %s", verdict)
	}
	if confined := !strings.Contains(verdict, "wrote"); !confined && !strings.HasPrefix(f.Sandbox(), sandbox.None) {
		t.Errorf("in the sandbox %s: %s", f.Sandbox(), verdict)
	}
}

func TestTheSandboxIsOnUnlessItIsTurnedOff(t *testing.T) {
	t.Parallel()
	why := ""
	if box, reason, err := sandbox.Open(t.Context(), sandbox.Auto, false); err != nil || box.Name() == sandbox.None {
		why = reason
	}
	for line, want := range map[string]string{
		"--tools shell":                 "commands run in a sandbox: bwrap",
		"--tools gate":                  "commands run in a sandbox: bwrap",
		"--tools shell --sandbox none":  "",
		"--tools shell --sandbox auto":  "commands run in a sandbox: bwrap",
		"--tools fs":                    "",
		"--tools shell --sandbox bwrap": "",
	} {
		var f Flags
		cmd := program(t, &f)
		work, _, err := cmd.Find([]string{"work"})
		if err != nil {
			t.Fatal(err)
		}
		if err := work.ParseFlags(append(strings.Fields(line), "--root", t.TempDir())); err != nil {
			t.Fatal(err)
		}
		_, err = f.open(t.Context())
		if forced := strings.HasSuffix(line, " bwrap"); (err != nil) != (forced && why != "") {
			t.Errorf("%s: %v, and auto says %q", line, err, why)
		}
		if why != "" && want != "" {
			want = "commands run without a sandbox: " + why
		}
		if got := f.SandboxNote(); err == nil && got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestPathsThatDoNotExistAreReported(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	var f Flags
	cmd := program(t, &f)
	work, _, err := cmd.Find([]string{"work"})
	if err != nil {
		t.Fatal(err)
	}
	if err := work.ParseFlags([]string{"--tools", "shell,fs", "--root", root, "--read-only", "docs", "--read-only", ".git", "--protect", "keys"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(f.Absent(), "\n")
	for _, want := range []string{"--read-only .git: there is no " + root + "/.git", "--protect keys: there is no " + root + "/keys"} {
		if !strings.Contains(got, want) || len(f.Absent()) != 2 {
			t.Errorf("Absent = %q, want %q", f.Absent(), want)
		}
	}
}

// A command may remove a link in the name of a protected path. Where it led stays protected.
func TestProtectedPathsDoNotDependOnLinks(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "real/keys"), 0o700), os.Symlink("real", filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}
	var f Flags
	f.Root = root
	want := []string{filepath.Join(root, "config/keys"), filepath.Join(root, "real/keys")}
	if got := f.guard("protect", []string{"config/keys"}); !slices.Equal(got, want) || len(f.Absent()) > 0 {
		t.Errorf("guard = %q, %q, want %q", got, f.Absent(), want)
	}
}
