package toolset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/mcp"
)

type serverFlags struct {
	servers []string // NAME=COMMAND ARGS or NAME=URL
	tokens  []string // NAME=REFERENCE
	headers []string // NAME=HEADER=REFERENCE
	env     []string // NAME=VARIABLE
}

func (f *serverFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.servers, "mcp", nil, "MCP `server` whose tools to add, as 'NAME=COMMAND ARGS' or NAME=URL; repeatable")
	fs.StringArrayVar(&f.tokens, "mcp-token", nil, "bearer token of an MCP server with a URL, as `NAME=env:VARIABLE` or NAME=file:PATH; repeatable")
	fs.StringArrayVar(&f.headers, "mcp-header", nil, "header of requests to an MCP server with a URL, as `NAME=HEADER=env:VARIABLE` or NAME=HEADER=file:PATH; repeatable")
	fs.StringArrayVar(&f.env, "mcp-env", nil, "variable of this environment to pass to an MCP server's command, as `NAME=VARIABLE`; repeatable")
}

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
		{"mcp-token", f.tokens, func(s *mcp.Server, reference string) error { s.Token = reference; return nil }},
		{"mcp-header", f.headers, setHeader},
		{"mcp-env", f.env, setVariable},
	} {
		for _, text := range extra.values {
			name, value, ok := strings.Cut(text, "=")
			i := slices.IndexFunc(servers, func(s mcp.Server) bool { return s.Name == name })
			switch {
			case !ok || value == "":
				return nil, fmt.Errorf("--%s %q: write the server's name, = and the value", extra.flag, name)
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

func setHeader(s *mcp.Server, value string) error {
	header, reference, ok := strings.Cut(value, "=")
	if !ok || header == "" || !tool.IsReference(reference) {
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
