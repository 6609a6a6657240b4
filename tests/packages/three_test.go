package packages

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// TestOneMachineBecomesThree runs the commands of docs/operations.md that move a deployment to three servers.
func TestOneMachineBecomesThree(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(string(read(t, "../../docs/operations.md")), "\n### From one machine to three\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)\n```\n(.*?)```\n").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	makes, serves, _ := strings.Cut(strings.TrimSpace(blocks[0]), "\n")

	bin := built(t)
	one := clitest.NewCell(t, bin)
	node := one.Start("driver-node")
	node.Await(t, "node started")
	one.Run(0, "turnlog", "run", "--session", "plan-7", "What is here?")
	node.Stop()

	users, _, _ := strings.Cut(makes, " > ")
	var servers []container
	for _, names := range [][]string{{"n1", "n2", "n3"}, {"n2", "n1", "n3"}, {"n3", "n1", "n2"}} {
		line := strings.NewReplacer("n1", names[0], "n2", names[1], "n3", names[2], `"`, "", " &", "", "$TURNLOG_ROUTE_PASSWORD", "$(TURNLOG_ROUTE_PASSWORD)").Replace(serves)
		servers = append(servers, container{name: names[0], argv: strings.Fields(line)})
	}
	c := start(t, bin, servers, output(t, bin, strings.Fields(users)...))
	script := "set -eu\ntrap 'kill $(jobs -p) || true; wait' EXIT\n" + c.hosts.Replace(regexp.MustCompile(`nats://(n[123])`).ReplaceAllString(strings.ReplaceAll(blocks[1], "nats://n0", one.NATS), "nats://$1:4222"))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env = t.TempDir(), slices.Concat(c.env, []string{"PATH=" + bin + ":/usr/bin:/bin", "NATS_URL="})
	out, err := cmd.CombinedOutput()
	streams := fmt.Sprintf("(%d streams", len(admin.Topology("", admin.Config{})))
	for _, part := range []string{"restored backup ", ": 1 session, of which 0 are working", ": 0 errors, ", streams} {
		if err != nil || !strings.Contains(string(out), part) {
			t.Fatalf("%v, or no %q:\n%s", err, part, out)
		}
	}
}
