package packages

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
)

var update = golden.Flag()

const (
	accountsFile = "../../docs/deploy/chart/files/accounts.conf"
	natsFile     = "../../docs/deploy/chart/files/nats.conf"
)

func TestMain(m *testing.M) {
	_ = os.Setenv("GOGC", "800") // of the programs, which are short-lived
	ramdisk.Use()
	os.Exit(m.Run())
}

// users are those of the deployments in docs/deploy.
func users() []string {
	return []string{"driver", "provisioner", "worker/default", "client+approver:gateway", "doctor+observer"}
}

// build builds the programs, once for all tests: even if nothing has changed, that takes half a second.
var build = sync.OnceValues(func() (bin string, err error) {
	return clitest.Build(context.Background(), "./cmd/...", "github.com/nats-io/nats-server/v2")
})

func built(t *testing.T) (bin string) {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func output(t *testing.T, bin string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, args[0]), args[1:]...).Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return string(out)
}

func TestTheAccountsAreThoseOfTurnlogPermissions(t *testing.T) {
	t.Parallel()
	golden.Check(t, *update, accountsFile, output(t, built(t), append([]string{"turnlog", "permissions", "--accounts"}, users()...)...))
}

// TestTheManifestsHaveTheAccounts needs no Helm, unlike the test that renders the manifests.
func TestTheManifestsHaveTheAccounts(t *testing.T) {
	t.Parallel()
	accounts, found := strings.TrimSpace(string(read(t, accountsFile))), 0
	for _, o := range manifests(t, read(t, manifestFile)) {
		if text, ok := o.Data["accounts.conf"]; ok {
			found++
			if diff := cmp.Diff(accounts, strings.TrimSpace(text)); diff != "" {
				t.Errorf("%s is not rendered from %s. Run go test -tags deploy ./tests/packages -run TestTheManifestsAreThoseOfTheChart -update (-accounts +manifests):\n%s",
					manifestFile, accountsFile, diff)
			}
		}
	}
	if found != 1 {
		t.Errorf("%s has %d accounts.conf", manifestFile, found)
	}
}

// TestOnlyTheGatewayHasItsToken also holds that no other container sees the Secret that it is in.
func TestOnlyTheGatewayHasItsToken(t *testing.T) {
	t.Parallel()
	with := map[string]string{} // the token or its Secret, by the container that has it
	for _, c := range allContainers(t) {
		if _, has := c.env["TURNLOG_GATEWAY_TOKEN"]; has {
			with[c.name] = "token"
		} else if slices.Contains(c.sees, "turnlog-gateway") {
			with[c.name] = "Secret"
		}
		if strings.HasSuffix(c.name, "-gateway") && !slices.Contains(c.sees, "turnlog-gateway") {
			t.Errorf("%s sees %v", c.name, c.sees)
		}
	}
	if diff := cmp.Diff(map[string]string{"compose: gateway": "token", "kubernetes: turnlog-gateway": "token"}, with); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestContainersStartProgramsAsTheyAre checks flags, their values, variables, ports and the time to stop. That the
// programs work with them is TestTheDeploymentsRun.
func TestContainersStartProgramsAsTheyAre(t *testing.T) {
	t.Parallel()
	bin := built(t)
	programs, err := settings.Programs()
	if err != nil {
		t.Fatal(err)
	}
	conf := string(read(t, natsFile)) + string(read(t, accountsFile))
	for _, c := range allContainers(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			words, given := commandLine(c.argv)
			help := output(t, bin, append(slices.Clone(words), "--help")...)
			sections := map[string]map[string]settings.Value{}
			for flag, value := range given {
				if !regexp.MustCompile("--" + flag + `[ ,\n]`).MatchString(help) {
					t.Errorf("%q has no flag --%s", words, flag)
				}
				if i := slices.IndexFunc(programs, func(p settings.Program) bool { return p.Command == strings.Join(words, " ") }); i >= 0 {
					sections[programs[i].Command] = map[string]settings.Value{flag: {Texts: []string{value}}}
					for _, problem := range (&settings.File{Path: c.name, Sections: sections}).Check(programs) {
						t.Error(problem)
					}
				}
			}
			for name := range c.env {
				if words[0] == "nats-server" {
					if !strings.Contains(conf, "$"+name) && !slices.Contains(c.argv, "$("+name+")") {
						t.Errorf("the server has no use for %s", name)
					}
				} else if !regexp.MustCompile(`\b` + name + `\b`).MatchString(help) {
					t.Errorf("%q has no variable %s", words, name)
				}
			}
			for _, port := range c.ports {
				listens := []string{c.flag("http"), c.flag("listen")}
				if words[0] == "nats-server" {
					listens = nil
					for _, m := range regexp.MustCompile(`(?m)^ *(?:port|http): (\d+)$`).FindAllStringSubmatch(conf, -1) {
						listens = append(listens, ":"+m[1])
					}
				}
				if !slices.Contains(listens, ":"+port) {
					t.Errorf("nothing listens at port %s but at %q", port, listens)
				}
			}
			drain := c.flag("drain")
			if drain != "" && duration(t, drain) >= c.grace {
				t.Errorf("it is killed after %s, and may need %s to stop", c.grace, drain)
			}
			if call := c.flag("timeout"); call != "" && duration(t, drain) <= duration(t, call) {
				t.Errorf("a call takes up to %s, and a stopping worker waits for %s", call, drain)
			}
		})
	}
}

// commandLine returns the words of a program, and its flags.
func commandLine(argv []string) (words []string, flags map[string]string) {
	flags = make(map[string]string)
	for i := 0; i < len(argv); i++ {
		flag, isFlag := strings.CutPrefix(argv[i], "--")
		name, value, whole := strings.Cut(flag, "=")
		switch {
		case !isFlag:
			words = append(words, argv[i])
		case whole:
			flags[name] = value
		default:
			i++
			flags[name] = argv[i]
		}
	}
	return words, flags
}

// TestTheManifestsNameTheirPorts holds that probes, services and policies name ports that exist.
func TestTheManifestsNameTheirPorts(t *testing.T) {
	t.Parallel()
	ports := make(map[string]bool) // numbers and names
	objects := manifests(t, read(t, manifestFile))
	for _, o := range objects {
		for _, c := range o.Spec.Template.Spec.Containers {
			for _, p := range c.Ports {
				ports[p.Name], ports[strconv.Itoa(p.ContainerPort)] = true, true
			}
			for _, p := range []probe{c.Startup, c.Liveness, c.Readiness} {
				there := slices.ContainsFunc(c.Ports, func(q containerPort) bool { return q.Name == p.HTTPGet.Port })
				if !there && o.Kind != "Job" {
					t.Errorf("%s %s has no port %q for a probe", o.Kind, o.Metadata.Name, p.HTTPGet.Port)
				}
			}
		}
	}
	ports["53"] = true // names
	for _, o := range objects {
		for _, p := range o.Spec.Ports {
			if !ports[p.TargetPort] {
				t.Errorf("the service %s is for a port %s that nothing has", o.Metadata.Name, p.TargetPort)
			}
		}
		for _, rule := range append(o.Spec.Ingress, o.Spec.Egress...) {
			for _, p := range rule.Ports {
				if !ports[strconv.Itoa(p.Port)] {
					t.Errorf("the policy %s is for a port %d that nothing has", o.Metadata.Name, p.Port)
				}
			}
		}
	}
}

func TestTheServersAreOfTheReleaseThatIsTested(t *testing.T) {
	t.Parallel()
	release := regexp.MustCompile(`nats-server/v2 v(\d+\.\d+)`).FindSubmatch(read(t, "../../go.mod"))
	for _, file := range []string{composeFile, "../../docs/deploy/chart/values.yaml"} {
		if want := "image: nats:" + string(release[1]) + "-alpine\n"; !strings.Contains(string(read(t, file)), want) {
			t.Errorf("%s does not have %q", file, want)
		}
	}
}
