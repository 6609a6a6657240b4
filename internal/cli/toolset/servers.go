package toolset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/tool/mcp"
)

// serverFlags are the flags for MCP servers.
type serverFlags struct {
	servers []string // NAME=COMMAND ARGS or NAME=URL
	tokens  []string // NAME=REFERENCE
	headers []string // NAME=HEADER=REFERENCE
	env     []string // NAME=VARIABLE
}

func (f *serverFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.servers, "mcp", nil, "MCP `server` whose tools to add, as 'NAME=COMMAND ARGS' or NAME=URL; repeatable")
	fs.StringArrayVar(&f.tokens, "mcp-token", nil, "bearer token of an MCP server with a URL, as `NAME=env:VARIABLE` or NAME=file:PATH; repeatable")
	fs.StringArrayVar(&f.headers, "mcp-header", nil, "header of requests to an MCP server with a URL, as `NAME=HEADER=env:VARIABLE` or NAME=HEADER=file:PATH; repeatable")
	fs.StringArrayVar(&f.env, "mcp-env", nil, "variable of this environment to pass to an MCP server's command, as `NAME=VARIABLE`; repeatable")
}

// parse returns the servers that the flags describe.
func (f *serverFlags) parse() ([]mcp.Server, error) {
	var servers []mcp.Server
	for _, text := range f.servers {
		s, err := mcp.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--mcp %w", err)
		}
		servers = append(servers, s)
	}
	for _, extra := range []struct {
		flag   string
		values []string
		set    func(s *mcp.Server, value string) error
	}{
		{"mcp-token", f.tokens, setToken},
		{"mcp-header", f.headers, setHeader},
		{"mcp-env", f.env, setVariable},
	} {
		for _, text := range extra.values {
			name, value, ok := strings.Cut(text, "=")
			i := slices.IndexFunc(servers, func(s mcp.Server) bool { return s.Name == name })
			switch {
			case !ok || value == "":
				return nil, fmt.Errorf("--%s %q: write the server's name, = and what it gets", extra.flag, name)
			case i < 0:
				return nil, fmt.Errorf("--%s %s: no --mcp names that server", extra.flag, name)
			}
			if err := extra.set(&servers[i], value); err != nil {
				return nil, fmt.Errorf("--%s %s: %w", extra.flag, name, err)
			}
			if err := servers[i].Check(); err != nil {
				return nil, fmt.Errorf("--%s: %w", extra.flag, err)
			}
		}
	}
	return servers, nil
}

func setToken(s *mcp.Server, reference string) error {
	s.Token = reference
	return nil
}

func setHeader(s *mcp.Server, value string) error {
	header, reference, ok := strings.Cut(value, "=")
	if !ok || header == "" || !mcp.IsReference(reference) {
		return errors.New("write the header, = and a reference, env:VARIABLE or file:PATH")
	}
	if s.Headers == nil {
		s.Headers = make(map[string]string)
	}
	s.Headers[header] = reference
	return nil
}

func setVariable(s *mcp.Server, name string) error {
	if err := checkVariable(name); err != nil {
		return err
	}
	if s.Env == nil {
		s.Env = make(map[string]string)
	}
	s.Env[name] = "env:" + name
	return nil
}

// Servers lists the MCP servers of the flags as NAME=ADDRESS.
func (f *Flags) Servers() []string {
	var out []string
	for _, s := range f.mcp {
		out = append(out, s.Name+"="+s.Address())
	}
	return out
}

// Missing waits for the servers and returns an error for each that is unavailable.
func Missing(ctx context.Context, m *mcp.Manager) []error {
	var out []error
	for _, s := range m.Settle(ctx) {
		if s.State != mcp.Ready && ctx.Err() == nil {
			out = append(out, fmt.Errorf("MCP server %s is not available, nor are its tools: %w", s.Server, s.Err))
		}
	}
	return out
}
