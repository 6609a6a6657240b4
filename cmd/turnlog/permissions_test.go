package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func TestPermissionsAreAServerConfiguration(t *testing.T) {
	t.Parallel()
	for _, role := range admin.Grantable() {
		args := []string{"permissions", string(role), "--namespace", "team-a"}
		if role == admin.RoleWorker {
			args = append(args, "--queue", "gpu")
		}
		for _, format := range []string{"conf", "json"} {
			out := expect(t, cli.CodeOK, append(args, "-o", format)...).out.String()
			if format == "json" {
				var report struct {
					Inbox       string `json:"inbox_prefix"`
					Permissions json.RawMessage
				}
				if err := json.Unmarshal([]byte(out), &report); err != nil {
					t.Fatalf("%s: %v in %s", role, err, out)
				}
				if !strings.HasPrefix(report.Inbox, "_INBOX_"+string(role)) {
					t.Errorf("%s: inbox prefix %q", role, report.Inbox)
				}
				out = `"permissions": ` + string(report.Permissions)
			}
			if !strings.Contains(out, "team-a") {
				t.Errorf("%s: not for the namespace:\n%s", role, out)
			}
			if err := embedded.Check(embedded.WithSettings("authorization { users: [ { user: u, password: p\n" + out + "\n} ] }")); err != nil {
				t.Errorf("%s as %s: %v\n%s", role, format, err, out)
			}
		}
	}
}

func TestPermissionsForMicroservices(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`"$SRV.INFO.billing"`: {"worker", "--queue", "office", "--nats-service", "billing"},
		`allow_responses: { max: 10000, expires: "24h0m0s" }`:   {"service", "--nats-service", "billing"},
		"# connects with --inbox-prefix _INBOX_service_billing": {"--accounts", "worker/office@billing"},
	} {
		out := expect(t, cli.CodeOK, append([]string{"permissions"}, args...)...).out.String()
		if !strings.Contains(out, want) {
			t.Errorf("%v: no %s in\n%s", args, want, out)
		}
		if !strings.HasPrefix(args[0], "--") {
			out = "authorization { users: [ { user: u, password: p\n" + out + "\n} ] }"
			if err := embedded.Check(embedded.WithSettings(out)); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		}
	}
	expect(t, cli.CodeUsage, "permissions", "service")
	expect(t, cli.CodeUsage, "permissions", "client", "--nats-service", "billing")
	expect(t, cli.CodeOK, "permissions", "--accounts", "--jwt", t.TempDir(), "worker/office@billing,other")
}

func TestPermissionsOfAUserWithANameAllowNoOther(t *testing.T) {
	t.Parallel()
	out := expect(t, cli.CodeOK, "permissions", "client", "approver", "--user", "ada").out.String()
	for text, want := range map[string]bool{
		"--inbox-prefix _USER_ada.": true, `"_USER_ada.>"`: true, `"turnlog.cmd.*.ask.ada"`: true, `"turnlog.cmd.*.decide.ada"`: true,
		`"turnlog.cmd.*.ask"`: false, `"turnlog.cmd.*.decide"`: false, "_INBOX": false, `"turnlog.cmd.*.*"`: false,
	} {
		if strings.Contains(out, text) != want {
			t.Errorf("has %s: %t, want %t in\n%s", text, !want, want, out)
		}
	}
	if err := embedded.Check(embedded.WithSettings("authorization { users: [ { user: ada, password: p\n" + out + "\n} ] }")); err != nil {
		t.Error(err)
	}
	apart := expect(t, cli.CodeOK, "permissions", "--accounts", "driver", "client:ada", "client:bob", "client").out.String()
	for text, want := range map[string]int{
		`{ service: { account: "turnlog", subject: "turnlog.cmd.*.ask.*" } }`: 1, `{ service: { account: "turnlog", subject: "turnlog.cmd.*.ask" } }`: 1,
		`"turnlog.cmd.*.ask.ada"`: 1, `"turnlog.cmd.*.ask.bob"`: 1, `"turnlog/client": {`: 1, "$TURNLOG_ADA_PASSWORD # connects with --inbox-prefix _USER_ada": 1,
	} {
		if got := strings.Count(apart, text); got != want {
			t.Errorf("%s: %d times, want %d in\n%s", text, got, want, apart)
		}
	}
}

func TestTheCommandsWorkInAccountsOfTheirRoles(t *testing.T) {
	for _, user := range []string{"DRIVER", "PROVISIONER", "CLIENT", "APPROVER", "KEEPER", "OBSERVER", "SCHEDULER", "DOCTOR", "NOTARY", "MESSENGER", "WORKER_DEFAULT"} {
		t.Setenv("TURNLOG_"+user+"_PASSWORD", "p")
	}
	srv, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithSettings(expect(t, cli.CodeOK, "permissions", "--accounts").out.String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	as := func(user string) []string {
		return []string{"--server", srv.ClientURL(), "--user", user, "--password", "p", "--inbox-prefix", "_INBOX_" + user}
	}
	expect(t, cli.CodeOK, append([]string{"provision", "--memory", "--queue", "default"}, as("provisioner")...)...)
	for _, p := range []*program{
		expect(t, cli.CodeOK, append([]string{"sessions", "ls"}, as("client")...)...),
		expect(t, cli.CodeOK, append([]string{"approvals", "ls"}, as("approver")...)...),
		expect(t, cli.CodeOK, append([]string{"schedule", "ls"}, as("scheduler")...)...),
		expect(t, cli.CodeOK, append([]string{"gc", "--older-than", "1d", "--delete"}, as("keeper")...)...),
	} {
		if s := p.err.String(); strings.Contains(s, "ermission") {
			t.Errorf("forbidden: %s", s)
		}
	}
}

func TestTheCommandsWorkWithJWTsOfTheirRole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sign := func(args ...string) string {
		t.Helper()
		return expect(t, cli.CodeOK, append([]string{"permissions", "--accounts", "--jwt", dir}, args...)...).out.String()
	}
	before := sign("-o", "json", "driver", "client:ada")
	conf := sign("provisioner", "client:ada", "keeper", "worker+client+approver/gpu:crew")
	srv, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithSettings(conf))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	as := func(user string) []string {
		flags := regexp.MustCompile(`(?m)^# ` + user + ` connects with (.*)$`).FindStringSubmatch(conf)
		if flags == nil {
			t.Fatalf("nothing about %s in %.2000s", user, conf)
		}
		return append([]string{"--server", srv.ClientURL()}, strings.Fields(flags[1])...)
	}
	expect(t, cli.CodeOK, append([]string{"provision", "--memory", "--queue", "gpu"}, as("provisioner")...)...)
	for _, p := range []*program{
		expect(t, cli.CodeOK, append([]string{"sessions", "ls"}, as("ada")...)...),
		expect(t, cli.CodeOK, append([]string{"approvals", "ls"}, as("crew")...)...),
		expect(t, cli.CodeOK, append([]string{"gc", "--older-than", "1d", "--delete"}, as("keeper")...)...),
	} {
		if s := p.err.String(); strings.Contains(s, "ermission") {
			t.Errorf("forbidden: %s", s)
		}
	}
	expect(t, cli.CodeFailed, append([]string{"schedule", "ls"}, as("ada")...)...)
	driver := filepath.Join(dir, "users", "driver.creds") // this time not a user
	expect(t, cli.CodeFailed, "sessions", "ls", "--server", srv.ClientURL(), "--creds", driver, "--inbox-prefix", "_INBOX_driver")

	if after := sign("-o", "json", "driver", "client:ada"); after != before {
		t.Errorf("keys changed from %s to %s", before, after)
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if info, infoErr := d.Info(); err != nil || infoErr != nil || info.Mode().Perm()&0o077 != 0 && path != dir {
			t.Errorf("%s: %v, %v", path, info.Mode(), errors.Join(err, infoErr))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for content, says := range map[string]string{"x": "no nkey seed found", readFile(t, filepath.Join(dir, "system.nk")): "no key of the kind operator"} {
		if err := os.WriteFile(filepath.Join(dir, "operator.nk"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if p := expect(t, cli.CodeFailed, "permissions", "--accounts", "--jwt", dir); !strings.Contains(p.err.String(), says) {
			t.Errorf("a bad key: %s", p.err)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestAccountsNeedUsersThatExist(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"boss"}, {"worker"}, {"client/gpu"}, {"worker/a.b"}, {"client", "--queue", "gpu"}, {"client", "client"}} {
		expect(t, cli.CodeUsage, append([]string{"permissions", "--accounts"}, args...)...)
	}
	out := expect(t, cli.CodeOK, "permissions", "--accounts", "worker+client+approver/gpu", "worker/gpu", "driver", "-o", "json").out.String()
	for _, want := range []string{`"turnlog"`, `"turnlog/client+approver+worker/gpu"`, `"turnlog/worker/gpu"`, `"TURNLOG_WORKER_GPU_PASSWORD"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}

func TestTheCommandsWorkWithPermissionsOfTheirRole(t *testing.T) {
	t.Parallel()
	var users strings.Builder
	for _, role := range []string{"provisioner", "client", "worker", "keeper"} {
		args := []string{"permissions", role}
		if role == "worker" {
			args = append(args, "--queue", "gpu")
		}
		users.WriteString("{ user: " + role + ", password: p\n" + expect(t, cli.CodeOK, args...).out.String() + "}\n")
	}
	srv, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithSettings("authorization { users: [\n"+users.String()+"] }"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	as := func(user string) []string {
		return []string{"--server", srv.ClientURL(), "--user", user, "--password", "p", "--inbox-prefix", "_INBOX_" + user}
	}
	expect(t, cli.CodeOK, append([]string{"provision", "--memory", "--queue", "gpu"}, as("provisioner")...)...)
	for _, p := range []*program{
		expect(t, cli.CodeOK, append([]string{"sessions", "ls"}, as("client")...)...),
		expect(t, cli.CodeOK, append([]string{"gc", "--older-than", "1d", "--delete"}, as("keeper")...)...),
		expect(t, cli.CodeFailed, append([]string{"sessions", "rm", "none"}, as("keeper")...)...),
	} {
		if s := p.err.String(); strings.Contains(s, "ermission") {
			t.Errorf("forbidden: %s", s)
		}
	}
}
