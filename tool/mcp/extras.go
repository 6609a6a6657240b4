package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// maxListed limits the lists that a model sees.
const maxListed = 500

const noArguments = `{"type":"object","additionalProperties":false}`

// resources returns the tools that list and read a server's resources.
func (l *link) resources() []*remoteTool {
	return []*remoteTool{
		l.extra(opResource, "resources/list", "list_resources", "Lists the resources of the MCP server "+l.cfg.Name+", and URI templates for more, as JSON.",
			noArguments, "", listResources),
		l.extra(opResource, "resources/read", "read_resource", "Reads a resource of the MCP server "+l.cfg.Name+".",
			`{"type":"object","required":["uri"],"additionalProperties":false,"properties":{"uri":{"type":"string","description":"URI of the resource, from the list or made from a template"}}}`,
			"uri", readResource),
	}
}

// prompts returns the tools that list and get a server's prompts.
func (l *link) prompts() []*remoteTool {
	return []*remoteTool{
		l.extra(opPrompt, "prompts/list", "list_prompts", "Lists the prompts of the MCP server "+l.cfg.Name+" and their arguments, as JSON.",
			noArguments, "", listPrompts),
		l.extra(opPrompt, "prompts/get", "get_prompt", "Gets a prompt of the MCP server "+l.cfg.Name+", filled in.",
			`{"type":"object","required":["name"],"additionalProperties":false,"properties":{"name":{"type":"string","description":"name of the prompt"},`+
				`"arguments":{"type":"object","description":"values to fill in, by argument","additionalProperties":{"type":"string"}}}}`,
			"name", getPrompt),
	}
}

func (l *link) extra(kind, method, name, about, schema, argument string, do doFunc) *remoteTool {
	return &remoteTool{
		l: l, name: name, operation: operation{kind: kind, method: method}, argument: argument, do: do,
		spec: tool.Spec{Description: about, InputSchema: json.RawMessage(schema), Effects: content.ReadOnly, Timeout: l.cfg.Timeout},
	}
}

type resourceList struct {
	Resources []listed `json:"resources"`
	Templates []listed `json:"templates,omitempty"`
	More      bool     `json:"more,omitempty"` // there are more than are shown
}

type promptList struct {
	Prompts []listed `json:"prompts"`
	More    bool     `json:"more,omitempty"` // there are more than are shown
}

// listed is a resource, a template, a prompt or an argument of one.
type listed struct {
	URI         string   `json:"uri,omitempty"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	MIME        string   `json:"mime,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Arguments   []listed `json:"arguments,omitempty"`
}

// take lists the first elements of a server's list.
func take[T any](all iter.Seq2[*T, error], show func(*T) listed) (list []listed, more bool, err error) {
	list = []listed{}
	for v, err := range all {
		if err != nil || len(list) == maxListed {
			return list, err == nil, err
		}
		if v != nil {
			list = append(list, show(v))
		}
	}
	return list, false, nil
}

func listResources(ctx context.Context, s *sdk.ClientSession, _ tool.Call, _ string) (out tool.Output, err error) {
	var l resourceList
	if l.Resources, l.More, err = take(pages(ctx, resourcesOf(s)), func(r *sdk.Resource) listed {
		return listed{URI: r.URI, Name: r.Name, Description: r.Description, MIME: r.MIMEType}
	}); err != nil {
		return out, fmt.Errorf("list resources: %w", err)
	}
	var more bool
	l.Templates, more, _ = take(pages(ctx, templatesOf(s)), func(t *sdk.ResourceTemplate) listed { // not every server has templates
		return listed{URI: t.URITemplate, Name: t.Name, Description: t.Description, MIME: t.MIMEType}
	})
	if l.More = l.More || more; ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return structured(l)
}

func listPrompts(ctx context.Context, s *sdk.ClientSession, _ tool.Call, _ string) (out tool.Output, err error) {
	var l promptList
	if l.Prompts, l.More, err = take(pages(ctx, promptsOf(s)), func(p *sdk.Prompt) listed {
		one := listed{Name: p.Name, Description: p.Description}
		for _, a := range p.Arguments {
			if a != nil {
				one.Arguments = append(one.Arguments, listed{Name: a.Name, Description: a.Description, Required: a.Required})
			}
		}
		return one
	}); err != nil {
		return out, fmt.Errorf("list prompts: %w", err)
	}
	return structured(l)
}

func readResource(ctx context.Context, s *sdk.ClientSession, c tool.Call, token string) (tool.Output, error) {
	p := &sdk.ReadResourceParams{URI: textOf(c.Input, "uri")}
	p.SetProgressToken(token)
	r, err := s.ReadResource(ctx, p)
	if err != nil {
		return tool.Output{}, fmt.Errorf("read resource: %w", err)
	}
	var out tool.Output
	for _, c := range r.Contents {
		if c != nil {
			out.Parts = append(out.Parts, resource(c))
		}
	}
	r.Meta, r.Contents, r.InputRequests, r.RequestState = nil, nil, nil, "" // see uncached
	return out, nil
}

// getPrompt returns the messages in order, each preceded by its role.
func getPrompt(ctx context.Context, s *sdk.ClientSession, c tool.Call, token string) (tool.Output, error) {
	var in struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return tool.Output{}, tool.Failure(tool.CodeInvalidArguments, "%v", err)
	}
	params := &sdk.GetPromptParams{Name: in.Name, Arguments: in.Arguments}
	params.SetProgressToken(token)
	r, err := s.GetPrompt(ctx, params)
	if err != nil {
		return tool.Output{}, fmt.Errorf("get prompt: %w", err)
	}
	var out tool.Output
	for _, m := range r.Messages {
		if m == nil || m.Content == nil {
			continue
		}
		p := part(m.Content)
		if p.Kind == content.TextKind {
			p.Text = string(m.Role) + ": " + strings.TrimSpace(p.Text) + "\n"
		}
		out.Parts = append(out.Parts, p)
	}
	return out, nil
}

func structured(v any) (tool.Output, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return tool.Output{}, fmt.Errorf("encode the list: %w", err)
	}
	return tool.Output{Parts: []content.Part{content.StructuredPart(raw)}}, nil
}
