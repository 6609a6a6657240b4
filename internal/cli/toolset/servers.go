package toolset

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/tool/mcp"
)

// serverFlags name MCP servers.
type serverFlags struct {
	servers []string // NAME=COMMAND ARGS or NAME=URL
	tokens  []string // NAME=REFERENCE
	headers []string // NAME=HEADER=REFERENCE
	env     []string // NAME=VARIABLE
}

// serverFlagNames are those that only count where a worker is started.
func serverFlagNames() []string { return []string{"mcp", "mcp-token", "mcp-header", "mcp-env"} }

func (f *serverFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.servers, "mcp", nil, "MCP `server` whose tools to add, as 'NAME=COMMAND ARGS' or NAME=URL; repeatable")
	fs.StringArrayVar(&f.tokens, "mcp-token", nil, "bearer token of an MCP server with a URL, as `NAME=env:VARIABLE` or NAME=file:PATH; repeatable")
	fs.StringArrayVar(&f.headers, "mcp-header", nil, "header of requests to an MCP server with a URL, as `NAME=HEADER=env:VARIABLE` or NAME=HEADER=file:PATH; repeatable")
	fs.StringArrayVar(&f.env, "mcp-env", nil, "variable of this environment that an MCP server's command sees, too, as `NAME=VARIABLE`; repeatable")
}

// parse makes servers of the flags.
func (f *serverFlags) parse() ([]mcp.Server, error) {
	var servers []mcp.Server
	for _, text := range f.servers {
		s, err := mcp.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--mcp %w", err)
		}
		servers = append(servers, s)
	}
	find := func(flag, text string) (*mcp.Server, string, error) {
		name, value, ok := strings.Cut(text, "=")
		i := slices.IndexFunc(servers, func(s mcp.Server) bool { return s.Name == name })
		switch {
		case !ok || value == "":
			return nil, "", fmt.Errorf("--%s %q: write the server's name, = and what it gets", flag, name)
		case i < 0:
			return nil, "", fmt.Errorf("--%s %s: no --mcp names that server", flag, name)
		}
		return &servers[i], value, nil
	}
	for _, text := range f.tokens {
		s, reference, err := find("mcp-token", text)
		if err != nil {
			return nil, err
		}
		s.Token = reference
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("--mcp-token: %w", err)
		}
	}
	for _, text := range f.headers {
		s, value, err := find("mcp-header", text)
		if err != nil {
			return nil, err
		}
		header, reference, ok := strings.Cut(value, "=")
		if !ok || header == "" || !mcp.IsReference(reference) {
			return nil, fmt.Errorf("--mcp-header %s: write the header, = and a reference, env:VARIABLE or file:PATH", s.Name)
		}
		if s.Headers == nil {
			s.Headers = make(map[string]string)
		}
		s.Headers[header] = reference
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("--mcp-header: %w", err)
		}
	}
	for _, text := range f.env {
		s, name, err := find("mcp-env", text)
		if err != nil {
			return nil, err
		}
		if s.Env == nil {
			s.Env = make(map[string]string)
		}
		if err := checkVariable(name); err != nil {
			return nil, fmt.Errorf("--mcp-env %s: %w", s.Name, err)
		}
		s.Env[name] = "env:" + name
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("--mcp-env: %w", err)
		}
	}
	return servers, nil
}

// Connect begins to connect to the MCP servers that the flags name, once Open has made
// the other tools. There may be none. They are told the program's version. The caller
// closes what it gets.
func (f *Flags) Connect(ctx context.Context, version string, getenv func(string) string, log *zap.Logger) (*mcp.Manager, error) {
	m, err := mcp.Open(ctx, mcp.Config{
		Servers: f.mcp, Roots: []string{f.Root}, Getenv: getenv, Version: version, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--mcp: %w", err)
	}
	return m, nil
}

// Servers tells which MCP servers the flags name, and how each is reached.
func (f *Flags) Servers() []string {
	var out []string
	for _, s := range f.mcp {
		out = append(out, s.Name+"="+s.Address())
	}
	return out
}

// Missing waits for the servers and says of those that are not there why.
func Missing(ctx context.Context, m *mcp.Manager) []error {
	var out []error
	for _, s := range m.Settle(ctx) {
		if s.State != mcp.Ready && ctx.Err() == nil {
			out = append(out, fmt.Errorf("MCP server %s is not available, nor are its tools: %w", s.Server, s.Err))
		}
	}
	return out
}
