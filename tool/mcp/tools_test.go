package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// everyWay runs a test over each transport and handshake.
func everyWay(t *testing.T, test func(t *testing.T, m *Manager)) {
	t.Helper()
	for name, server := range map[string]func(t *testing.T) Server{
		"http":          func(t *testing.T) Server { return Server{Name: "x", URL: newFake(false).serve(t).URL} },
		"http, legacy":  func(t *testing.T) Server { return Server{Name: "x", URL: newFake(true).serve(t).URL} },
		"stdio":         func(t *testing.T) Server { return programServer(t, "x", "new") },
		"stdio, legacy": func(t *testing.T) Server { return programServer(t, "x", "legacy") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := open(t, Config{Servers: []Server{server(t)}})
			ready(t, m)
			test(t, m)
		})
	}
}

func TestServerToolsBecomeTools(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, m *Manager) {
		for name, effects := range map[string]content.Effects{
			"mcp_x_echo": content.ReadOnly, "mcp_x_set": content.Idempotent, "mcp_x_add": content.Once, "mcp_x_fail": content.Once,
			"mcp_x_dotted_name": content.Once, "mcp_x_read_resource": content.ReadOnly, "mcp_x_list_prompts": content.ReadOnly,
		} {
			spec := named(t, m, name).Spec()
			if spec.Effects != effects || spec.Timeout != 2*time.Minute || spec.Description == "" {
				t.Errorf("%s: effects %q, timeout %v, description %q", name, spec.Effects, spec.Timeout, spec.Description)
			}
		}
		wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"hello"}`), content.StatusOK, "", "hello")
		wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":1}`), content.StatusError, tool.CodeInvalidArguments, "text")
		wantText(t, invoke(t, named(t, m, "mcp_x_dotted_name"), ``), content.StatusOK, "", "dotted")
		wantText(t, invoke(t, named(t, m, "mcp_x_fail"), `{}`), content.StatusError, tool.CodeFailed, "Tool failed: the disk is full")
		if spec := named(t, m, "mcp_x_mixed").Spec(); spec.Description != "All kinds of content" {
			t.Errorf("a title does not describe: %q", spec.Description)
		}
		r := invoke(t, named(t, m, "mcp_x_add"), `{"A":1,"B":2}`).Result
		if diff := cmp.Diff([]content.Part{content.StructuredPart(json.RawMessage(`{"sum":3}`))}, r.Output); diff != "" {
			t.Errorf("structured content is not alone (-want +got):\n%s", diff)
		}
	})
}

func TestContentBecomesParts(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{{Name: "x", URL: newFake(false).serve(t).URL}}})
	ready(t, m)
	want := []content.Part{
		content.TextPart("one"),
		{Kind: content.MediaKind, Media: &content.Media{Modality: "image", MIME: "image/png", Bytes: []byte{1, 2}}},
		{Kind: content.MediaKind, Media: &content.Media{Modality: "audio", MIME: "audio/wav", Bytes: []byte{3}}},
		{Kind: content.TextKind, Text: "[resource note:1 first (text/plain): a note]", Metadata: content.Metadata{}.With("uri", "note:1")},
		{Kind: content.TextKind, Text: "within", Metadata: content.Metadata{}.With("uri", "note:2")},
		{Kind: content.FileKind, Name: "note:3", Media: &content.Media{Modality: "document", MIME: "application/pdf", Bytes: []byte("pdf")}},
	}
	if diff := cmp.Diff(want, invoke(t, named(t, m, "mcp_x_mixed"), `{}`).Result.Output); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTextThatRepeatsStructuredContentIsOmitted(t *testing.T) {
	t.Parallel()
	structured := map[string]any{"pages": []any{map[string]any{"text": "hello"}}}
	for text, kept := range map[string]bool{`{ "pages": [{"text": "hello"}] }`: false, "hello": false, "hell": true, `{"pages":[]}`: true} {
		out, err := result(&sdk.CallToolResult{StructuredContent: structured, Content: []sdk.Content{&sdk.TextContent{Text: text}}})
		if err != nil || len(out.Parts) != 1 && !kept || kept && (len(out.Parts) != 2 || out.Parts[1].Text != text) {
			t.Errorf("%s: %+v, %v", text, out.Parts, err)
		}
	}
}

func TestResourcesAndPromptsAreTools(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, m *Manager) {
		for name, c := range map[string]struct{ input, want string }{
			"list_resources": {`{}`, `{"resources":[{"uri":"note:1","name":"first","mime":"text/plain"}],"templates":[{"uri":"page:{n}","name":"pages"}]}`},
			"list_prompts":   {`{}`, `{"prompts":[{"name":"greet","description":"Greets.","arguments":[{"name":"who","required":true}]}]}`},
		} {
			r := invoke(t, named(t, m, "mcp_x_"+name), c.input).Result
			if len(r.Output) != 1 || string(r.Output[0].Data) != c.want {
				t.Errorf("%s = %s %+v", name, r.Status, r.Output)
			}
		}
		wantText(t, invoke(t, named(t, m, "mcp_x_read_resource"), `{"uri":"note:1"}`), content.StatusOK, "", "buy milk")
		wantText(t, invoke(t, named(t, m, "mcp_x_read_resource"), `{"uri":"page:7"}`), content.StatusOK, "", "of page:7")
		wantText(t, invoke(t, named(t, m, "mcp_x_read_resource"), `{"uri":"none:1"}`), content.StatusError, tool.CodeInvalidArguments, "")
		wantText(t, invoke(t, named(t, m, "mcp_x_get_prompt"), `{"name":"greet","arguments":{"who":"Ann"}}`), content.StatusOK, "", "user: Say hello to Ann")
		wantText(t, invoke(t, named(t, m, "mcp_x_get_prompt"), `{"name":"none"}`), content.StatusError, tool.CodeInvalidArguments, "none")
	})
}

func TestProgressAndCancelReachTheOtherSide(t *testing.T) {
	t.Parallel()
	for name, legacy := range map[string]bool{"now": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(legacy)
			m := open(t, Config{Servers: []Server{{Name: "x", URL: f.serve(t).URL}}})
			ready(t, m)
			long := named(t, m, "mcp_x_long")
			told := make(chan string, 8)
			call := tool.Call{ID: "c1", Input: json.RawMessage(`{}`), Progress: func(text string, share float64) {
				if share == 0.5 {
					told <- text
				}
			}}
			ctx, cancel := context.WithCancel(within(t))
			ended := make(chan tool.Result, 1)
			go func() { ended <- tool.Invoke(ctx, long, call) }()
			if got := <-told; got != "half" {
				t.Errorf("progress = %q", got)
			}
			<-f.started
			cancel()
			if r := <-ended; r.Result.Status != content.StatusCancelled {
				t.Errorf("result = %+v", r.Result)
			}
			<-f.stopped // the cancel reached the server

			go func() { ended <- tool.Invoke(within(t), long, call) }()
			<-f.started
			f.finishes <- struct{}{}
			wantText(t, <-ended, content.StatusOK, "", "done")
		})
	}
}

func TestCallsHaveATimeLimit(t *testing.T) {
	t.Parallel()
	f := newFake(false)
	m := open(t, Config{Servers: []Server{{Name: "x", URL: f.serve(t).URL, Timeout: 300 * time.Millisecond}}})
	ready(t, m)
	for len(f.started) == 0 { // on a slow machine the limit may end the call before the server has it
		wantText(t, invoke(t, named(t, m, "mcp_x_long"), `{}`), content.StatusError, tool.CodeTimeout, "Tool timed out after 300ms")
	}
	<-f.stopped
	echo := named(t, m, "mcp_x_echo")
	eventually(t, "another call", func() bool { return invoke(t, echo, `{"text":"a"}`).Result.Status == content.StatusOK })
}

func TestServersReceiveTheIdempotencyKey(t *testing.T) {
	t.Parallel()
	f := newFake(false)
	m := open(t, Config{Servers: []Server{{Name: "x", URL: f.serve(t).URL}}})
	ready(t, m)
	invoke(t, named(t, m, "mcp_x_set"), `{"text":"a"}`)
	f.mu.Lock()
	defer f.mu.Unlock()
	if diff := cmp.Diff([]any{"s1/t1-r1-c1"}, f.keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestHintsCanBeIgnored(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{{Name: "x", URL: newFake(false).serve(t).URL, IgnoreHints: true}}})
	ready(t, m)
	if e := named(t, m, "mcp_x_echo").Spec().Effects; e != content.Once {
		t.Errorf("effects = %q", e)
	}
}

func TestPoliciesSeeTheServer(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{{Name: "x", URL: newFake(false).serve(t).URL, Scopes: []string{"write"}}}})
	ready(t, m)
	for name, c := range map[string]struct {
		p    tool.Permissions
		want string
	}{
		"trusted":   {permission.Servers{Trust: []string{"x"}}, ""},
		"untrusted": {permission.Servers{Trust: []string{"y"}}, "mcp.server x"},
		"scope":     {permission.Servers{Scopes: []string{"read"}}, "mcp.auth_scope x write"},
		"denied":    {permission.Servers{Deny: []string{"x"}}, "server_not_trusted"},
		"by kind":   {permission.Kinds{Deny: []string{"mcp.tool_call"}}, "kind_not_allowed"},
	} {
		call := tool.Call{ID: "c1", Name: "mcp_x_echo", Input: json.RawMessage(`{"text":"a"}`)}
		questions, err := permission.Judge(t.Context(), c.p, named(t, m, call.Name), call)
		var got []string
		for _, g := range questions {
			got = append(got, strings.TrimSpace(g.RequestKind+" "+g.Scope))
		}
		if refusal, ok := errors.AsType[*tool.Error](err); ok {
			got = append(got, refusal.Code)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
	for name, want := range map[string]string{
		"mcp_x_echo": `mcp.tool_call {"server":"x","name":"echo","scopes":["write"]}`, "mcp_x_list_prompts": `mcp.prompt_get {"server":"x","scopes":["write"]}`,
		"mcp_x_read_resource": `mcp.resource_read {"server":"x","uri":"note:1","scopes":["write"]}`,
	} {
		requests, err := named(t, m, name).(tool.Proposer).Propose(t.Context(), tool.Call{Name: name, Input: json.RawMessage(`{"uri":"note:1","text":"a"}`)})
		if err != nil || len(requests) != 1 || requests[0].Kind+" "+string(requests[0].Target) != want {
			t.Errorf("%s proposes %+v, %v; want %s", name, requests, err, want)
		}
	}
}
