package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// asking is a server whose tools send requests to the client.
func asking() *fake {
	f := newFake(true)
	add := func(name string, ask func(context.Context, *sdk.ServerSession) (string, error)) {
		f.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			reply, err := ask(ctx, r.Session)
			if err != nil {
				return &sdk.CallToolResult{IsError: true, Content: texts(err.Error()).Content}, nil
			}
			return texts(reply), nil
		})
	}
	add("ask_model", func(ctx context.Context, s *sdk.ServerSession) (string, error) {
		r, err := s.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "2+2?"}}}})
		if err != nil {
			return "", err
		}
		return r.Content.(*sdk.TextContent).Text, nil
	})
	add("ask_person", func(ctx context.Context, s *sdk.ServerSession) (string, error) {
		r, err := s.Elicit(ctx, &sdk.ElicitParams{Message: "Sure?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`)})
		if err != nil {
			return "", err
		}
		return r.Action, nil
	})
	add("ask_roots", func(ctx context.Context, s *sdk.ServerSession) (string, error) {
		r, err := s.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		var out []string
		for _, root := range r.Roots {
			out = append(out, root.URI)
		}
		return strings.Join(out, " "), nil
	})
	return f
}

func TestTheHostAnswersServers(t *testing.T) {
	t.Parallel()
	m := open(t, Config{
		Servers: []Server{{Name: "x", URL: asking().serve(t).URL}}, Roots: []string{"/srv/a b", "/tmp"},
		Sampling: func(_ context.Context, server string, p *sdk.CreateMessageParams) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: server + " asks " + p.Messages[0].Content.(*sdk.TextContent).Text}}, nil
		},
		Elicitation: func(_ context.Context, server string, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
			if server != "x" || p.Message != "Sure?" {
				t.Errorf("%s asks %q", server, p.Message)
			}
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
		},
	})
	ready(t, m)
	wantText(t, invoke(t, named(t, m, "mcp_x_ask_model"), `{}`), content.StatusOK, "", "x asks 2+2?")
	wantText(t, invoke(t, named(t, m, "mcp_x_ask_person"), `{}`), content.StatusOK, "", "accept")
	wantText(t, invoke(t, named(t, m, "mcp_x_ask_roots"), `{}`), content.StatusOK, "", "file:///srv/a%20b file:///tmp")
}

func TestRequestsAreRefusedWithoutAHandler(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{{Name: "x", URL: asking().serve(t).URL}}})
	ready(t, m)
	wantText(t, invoke(t, named(t, m, "mcp_x_ask_model"), `{}`), content.StatusError, tool.CodeFailed, "sampling")
	wantText(t, invoke(t, named(t, m, "mcp_x_ask_person"), `{}`), content.StatusError, tool.CodeFailed, "elicitation")
	r := invoke(t, named(t, m, "mcp_x_ask_roots"), `{}`).Result
	if r.Status != content.StatusOK || r.Text() != "" {
		t.Errorf("roots = %s %q", r.Status, r.Text())
	}
}
