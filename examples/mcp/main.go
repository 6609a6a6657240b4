// Command mcp gives an agent the tools of an MCP server. The server is this program too: with
// the argument "serve" it speaks the protocol over stdin and stdout.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/mcp"
)

const script = `
replies:
  - calls: [{name: mcp_shop_price, input: {item: tea}}, {name: mcp_shop_order, input: {item: tea}}]
  - text: "Tea costs {{(index .Results 0).Text}}. Ordering it: {{(index .Results 1).Text}}."
`

func main() {
	do := run
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		do = serve
	}
	if err := do(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

type item struct {
	Item string `json:"item" jsonschema:"what to buy"`
}

// serve is the server. It declares one of its tools read-only.
func serve(ctx context.Context, _ *log.Logger) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "price", Description: "Says what an item costs.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in item) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("%d cents", 100*len(in.Item))}}}, nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "order", Description: "Orders an item."},
		func(context.Context, *sdk.CallToolRequest, item) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ordered"}}}, nil, nil
		})
	if err := s.Run(ctx, &sdk.StdioTransport{}); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// run is the agent. One of its servers does not exist, which does not affect the other.
func run(ctx context.Context, out *log.Logger) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	servers, err := mcp.Open(ctx, mcp.Config{Servers: []mcp.Server{
		{Name: "shop", Command: []string{self, "serve"}},
		{Name: "closed", Command: []string{self + "-that-is-not-there"}},
	}})
	if err != nil {
		return err
	}
	defer servers.Close()
	for _, s := range servers.Settle(ctx) {
		out.Printf("%s is %s and offers %v", s.Server, s.State, s.Tools)
	}
	catalog, err := tool.Sample(ctx, servers.Sources(), tool.FirstWins)
	if err != nil {
		return err
	}
	for _, o := range catalog.Offers {
		out.Printf("%s of %s, effects %q", o.Spec.Name, o.Source, o.Spec.Effects)
	}
	m, err := scripted.Parse("shopping", []byte(script))
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{
		Model: m, Tools: servers.Sources(),
		Permissions: permission.All(
			permission.Servers{Trust: []string{"shop"}},
			permission.Rules{{Tool: "mcp_shop_order", Action: events.RuleDeny}},
		),
	})
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		return err
	}
	r, err := d.RunText(ctx, "Buy tea.")
	if err != nil {
		return err
	}
	out.Println(r.Response)
	return d.Close(ctx)
}
