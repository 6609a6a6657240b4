package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// metaKey is the key of a call's idempotency key in _meta.
const metaKey = "turnlog/idempotency-key"

// remoteTool is a tool of a server, or a tool of this package for its resources and prompts. It
// outlives connections.
type remoteTool struct {
	l *link
	operation
	name     string // the server's
	argument string // the argument that names what the operation is about; "": none
	spec     tool.Spec
	do       doFunc
}

type doFunc func(ctx context.Context, s *sdk.ClientSession, c tool.Call, token string) (tool.Output, error)

func (t *remoteTool) on(input json.RawMessage) operation {
	op := t.operation
	if t.argument != "" {
		op.about = textOf(input, t.argument)
	}
	return op
}

// textOf returns a text argument of a call; "": there is none.
func textOf(input json.RawMessage, argument string) string {
	var fields map[string]any
	_ = json.Unmarshal(input, &fields) // an invalid input has no arguments
	text, _ := fields[argument].(string)
	return text
}

// Spec returns the tool's spec.
func (t *remoteTool) Spec() tool.Spec { return t.spec }

// Call calls the server, passes its progress reports on, and cancels the call there if ctx
// ends.
func (t *remoteTool) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	if input := bytes.TrimSpace(c.Input); len(input) == 0 || string(input) == "null" {
		c.Input = json.RawMessage("{}")
	}
	token, end := t.l.progress.begin(c.Progress)
	defer end()
	var out tool.Output
	err := t.l.do(ctx, t.spec.Effects, func(s *sdk.ClientSession) (err error) {
		out, err = t.do(ctx, s, c, token)
		return err
	})
	if err != nil {
		return tool.Output{}, t.l.explain(ctx, t.on(c.Input), err)
	}
	return out, nil
}

// target is the target of a permission request.
type target struct {
	Server string   `json:"server"`
	Name   string   `json:"name,omitempty"`
	URI    string   `json:"uri,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
}

// Propose returns a request that names the operation and the server.
func (t *remoteTool) Propose(_ context.Context, c tool.Call) ([]tool.Request, error) {
	op := t.on(c.Input)
	to := target{Server: t.l.cfg.Name, Name: op.about, Scopes: t.l.cfg.Scopes}
	if op.kind == opResource {
		to.Name, to.URI = "", op.about
	}
	raw, err := json.Marshal(to)
	if err != nil {
		return nil, err //nolint:wrapcheck // strings only
	}
	r := tool.RequestFor(t.spec, c)
	r.Kind, r.Target = "mcp."+op.kind, raw
	r.Summary = "ask MCP server " + t.l.cfg.Name + " for " + op.method
	if op.about != "" {
		r.Summary += " " + op.about
	}
	return []tool.Request{r}, nil
}

func (l *link) remote(t *sdk.Tool) *remoteTool {
	return &remoteTool{
		l: l, operation: operation{kind: opToolCall, method: "tools/call", about: t.Name}, name: t.Name,
		spec: tool.Spec{
			Description: cmp.Or(t.Description, title(t), "The tool "+t.Name+" of the MCP server "+l.cfg.Name+"."),
			InputSchema: schema(t.InputSchema), OutputSchema: schema(t.OutputSchema),
			Effects: l.effects(t.Annotations), Timeout: l.cfg.Timeout,
		},
		do: func(ctx context.Context, s *sdk.ClientSession, c tool.Call, token string) (tool.Output, error) {
			p := &sdk.CallToolParams{Name: t.Name, Arguments: c.Input}
			if c.IdempotencyKey != "" {
				p.Meta = sdk.Meta{metaKey: c.IdempotencyKey}
			}
			p.SetProgressToken(token)
			r, err := s.CallTool(ctx, p)
			if err != nil {
				return tool.Output{}, err //nolint:wrapcheck // explain reads it
			}
			return result(r)
		},
	}
}

func title(t *sdk.Tool) string {
	if t.Title == "" && t.Annotations != nil {
		return t.Annotations.Title
	}
	return t.Title
}

// schema returns a server's schema unchanged, or nil if it has none.
func schema(s any) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil || string(raw) == "null" || string(raw) == "{}" {
		return nil
	}
	return raw
}

// effects returns what the server hints at, unless hints are ignored.
func (l *link) effects(a *sdk.ToolAnnotations) content.Effects {
	switch {
	case a == nil || l.cfg.IgnoreHints:
		return content.Once
	case a.ReadOnlyHint:
		return content.ReadOnly
	case a.IdempotentHint:
		return content.Idempotent
	}
	return content.Once
}
