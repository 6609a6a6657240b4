package toolset

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parsed returns the MCP servers of a command line, each as "NAME: what it gets".
func parsed(args []string) (out []string, err error) {
	var f serverFlags
	fs := pflag.NewFlagSet("prog", pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	servers, err := f.parse()
	for _, s := range servers {
		got := []string{s.Token}
		for name, reference := range s.Headers {
			got = append(got, name+"="+reference)
		}
		for name, reference := range s.Env {
			got = append(got, name+"="+reference)
		}
		slices.Sort(got)
		out = append(out, s.Name+": "+strings.TrimSpace(strings.Join(got, " ")))
	}
	return out, err
}

func TestMCPFlagsDescribeServers(t *testing.T) {
	t.Parallel()
	got, err := parsed([]string{
		"--mcp", "web=https://mcp.example.com/x", "--mcp", "local=server --verbose",
		"--mcp-token", "web=env:TOKEN", "--mcp-header", "web=X-Team=file:/etc/team", "--mcp-header", "web=X-Key=env:KEY",
		"--mcp-env", "local=LANG", "--mcp-env", "local=TZ",
	})
	want := []string{"web: X-Key=env:KEY X-Team=file:/etc/team env:TOKEN", "local: LANG=env:LANG TZ=env:TZ"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("servers %q, %v, want %q", got, err, want)
	}
}

func TestInvalidMCPFlagsAreErrors(t *testing.T) {
	t.Parallel()
	const web, local = "--mcp=web=https://mcp.example.com", "--mcp=local=server"
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--mcp=web"}, "--mcp "},
		{[]string{web, "--mcp-token=web"}, `--mcp-token "web": write the server's name`},
		{[]string{web, "--mcp-token=web="}, `--mcp-token "web": write the server's name`},
		{[]string{web, "--mcp-token=other=env:T"}, "--mcp-token other: no --mcp names that server"},
		{[]string{web, "--mcp-token=web=hunter2"}, "--mcp-token: "},
		{[]string{local, "--mcp-token=local=env:T"}, "--mcp-token: "},
		{[]string{web, "--mcp-header=web=X-Key"}, "--mcp-header web: write the header"},
		{[]string{web, "--mcp-header=web=X-Key=hunter2"}, "--mcp-header web: write the header"},
		{[]string{web, "--mcp-header=web==env:T"}, "--mcp-header web: write the header"},
		{[]string{local, "--mcp-env=local=A=b"}, "--mcp-env local: "},
		{[]string{web, "--mcp-env=web=LANG"}, "--mcp-env: "},
	} {
		_, err := parsed(row.args)
		if err == nil || !strings.HasPrefix(err.Error(), row.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %s…, without the secret", row.args, err, row.want)
		}
	}
}
