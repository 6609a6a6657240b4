package mcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const bigResource = 1 << 20

// programMain is the test binary as a server over stdin and stdout, in a mode.
func programMain(mode string) int {
	switch mode {
	case "slow":
		fmt.Fprintln(os.Stderr, "still installing")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "hang": // reads and never answers
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			continue
		}
		return 0
	case "stubborn": // continues after its input has ended
		select {}
	case "broken":
		fmt.Fprintln(os.Stderr, "no key: "+os.Getenv("API_KEY"))
		return 3
	case "noise":
		fmt.Println("this is no JSON")
		return 0
	case "garbled":
		fmt.Println("{this is no JSON: " + os.Getenv("API_KEY"))
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "hostile", "many":
		return hostileMain(mode == "many")
	case "banner": // greets on stdout
		fmt.Printf("Welcome!\r\n\n\t\n> listening%s\n  ", strings.Repeat(".", 100_000))
	}
	f := newFake(mode == "legacy")
	sdk.AddTool(f.Server, &sdk.Tool{Name: "environment"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		vars := os.Environ()
		slices.Sort(vars)
		return texts(strings.Join(vars, "\n")), nil, nil
	})
	sdk.AddTool(f.Server, &sdk.Tool{Name: "die"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "out of paper")
		os.Exit(7)
		return nil, nil, nil
	})
	sdk.AddTool(f.Server, &sdk.Tool{Name: "spawn"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), "sleep", "600")
		if err := cmd.Start(); err != nil {
			return nil, nil, err
		}
		return texts(strconv.Itoa(cmd.Process.Pid)), nil, nil
	})
	if mode == "big" {
		f.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "big:{n}", Name: "big"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{
				Cacheable: sdk.Cacheable{TTLMs: 1 << 30}, Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: strings.Repeat("x", bigResource)}},
			}, nil
		})
	}
	if err := f.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// programServer returns the test binary as a server.
func programServer(t *testing.T, name, mode string) Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Server{Name: name, Command: []string{self}, Env: map[string]string{asProgram: mode}}
}
