package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
)

// A server's list can be endless. It must not block the worker or fill its memory.
func TestEndlessListsAreErrors(t *testing.T) {
	t.Parallel()
	schema := map[string]any{"type": "object"}
	long := strings.Repeat("x", 3<<20)
	for want, page := range map[string]func(n int) *sdk.ListToolsResult{
		"list tools: the list has more than 100 pages": func(n int) *sdk.ListToolsResult {
			return &sdk.ListToolsResult{NextCursor: strconv.Itoa(n)}
		},
		"list tools: the server returned the same cursor again": func(int) *sdk.ListToolsResult {
			return &sdk.ListToolsResult{NextCursor: "again"}
		},
		"list tools: there are more than 1000": func(n int) *sdk.ListToolsResult {
			r := &sdk.ListToolsResult{NextCursor: strconv.Itoa(n)}
			for range 500 { // all have one name
				r.Tools = append(r.Tools, &sdk.Tool{Name: "same", InputSchema: schema})
			}
			return r
		},
		"list tools: the list has more than 16 MiB": func(n int) *sdk.ListToolsResult {
			return &sdk.ListToolsResult{NextCursor: strconv.Itoa(n), Tools: []*sdk.Tool{{Name: fmt.Sprint("t", n), Description: long, InputSchema: schema}}}
		},
	} {
		f, asked := newFake(false), 0
		f.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
				if method != "tools/list" {
					return next(ctx, method, r)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				asked++
				return page(asked), nil
			}
		})
		m := open(t, Config{Servers: []Server{{Name: "x", URL: f.serve(t).URL}}})
		if s := m.Settle(within(t)); s[0].Err == nil || s[0].Err.Error() != want {
			t.Errorf("%v, want %q", s[0].Err, want)
		}
		m.Close()
	}
}

func TestEndlessResourcesAreAnError(t *testing.T) {
	t.Parallel()
	f, asked := newFake(false), 0
	f.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != "resources/list" {
				return next(ctx, method, r)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			asked++
			return &sdk.ListResourcesResult{NextCursor: strconv.Itoa(asked), Resources: []*sdk.Resource{}}, nil
		}
	})
	f.AddResource(&sdk.Resource{URI: "note:1", Name: "n"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{}, nil
	})
	m := open(t, Config{Servers: []Server{{Name: "x", URL: f.serve(t).URL}}})
	ready(t, m)
	wantText(t, invoke(t, named(t, m, "mcp_x_list_resources"), `{}`), content.StatusError, "unavailable", "the list has more than 100 pages")
}
