package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/tool"
)

func TestParseReadsServersOfCommandLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Server{
		`files=npx -y server /tmp`:          {Name: "files", Command: []string{"npx", "-y", "server", "/tmp"}},
		`a= sh -c 'echo "a b"; x' "c \" d"`: {Name: "a", Command: []string{"sh", "-c", `echo "a b"; x`, `c " d`}},
		`a=one\ word '' "back\slash"`:       {Name: "a", Command: []string{"one word", "", `back\slash`}},
		`a=env A=b prog`:                    {Name: "a", Command: []string{"env", "A=b", "prog"}},
		`web=https://example.test/mcp?a=b`:  {Name: "web", URL: "https://example.test/mcp?a=b"},
	} {
		got, err := Parse(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"files":           "use NAME=COMMAND ARGS or NAME=URL",
		"files=":          "use NAME=COMMAND ARGS or NAME=URL",
		"=prog":           `server "": use a name of 1 to 32 letters`,
		"a.b=prog":        `server "a.b": use a name`,
		"a='prog":         "server a: a ' is not closed",
		`a=prog \`:        "server a: the last character is a backslash",
		"a=http://":       "server a: the URL must be like https://host/path",
		"a=ws://host/x":   "server a: the URL must be like https://host/path",
		"a=https://a:b:c": "server a: the URL must be like https://host/path",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestInvalidConfigsAreRefused(t *testing.T) {
	t.Parallel()
	ok := Server{Name: "a", URL: "http://127.0.0.1:1"}
	for want, cfg := range map[string]Config{
		"two servers have the name a":                                    {Servers: []Server{ok, ok}},
		"servers a and a_b: their tools":                                 {Servers: []Server{ok, {Name: "a_b", Command: []string{"x"}}}},
		"server a: give either a command or a URL":                       {Servers: []Server{{Name: "a"}}},
		"server a: token: use a reference":                               {Servers: []Server{{Name: "a", URL: ok.URL, Token: "hush"}}},
		"server a: token: use a reference, env:NAME or file:PATH":        {Servers: []Server{{Name: "a", URL: ok.URL, Token: "env:"}}},
		`server a: header "X Y": is not a header name`:                   {Servers: []Server{{Name: "a", URL: ok.URL, Headers: map[string]string{"X Y": "env:A"}}}},
		"server a: header host is reserved for the protocol":             {Servers: []Server{{Name: "a", URL: ok.URL, Headers: map[string]string{"host": "env:A"}}}},
		"server a: header Mcp-Session-Id is reserved for the protocol":   {Servers: []Server{{Name: "a", URL: ok.URL, Headers: map[string]string{"Mcp-Session-Id": "env:A"}}}},
		"server a: header authorization cannot be combined with a token": {Servers: []Server{{Name: "a", URL: ok.URL, Token: "env:A", Headers: map[string]string{"authorization": "env:A"}}}},
		"are for URLs":                   {Servers: []Server{{Name: "a", Command: []string{"x"}, Token: "env:A"}}},
		"is only for commands":           {Servers: []Server{{Name: "a", URL: ok.URL, Env: map[string]string{"A": "b"}}}},
		"neither may be negative":        {Servers: []Server{{Name: "a", URL: ok.URL, Timeout: -1}}},
		`root "x": use an absolute path`: {Roots: []string{"x"}},
		"a backoff must not be negative": {Backoff: Backoff{First: -1}},
	} {
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

func TestErrorsOfServersHaveCodes(t *testing.T) {
	t.Parallel()
	l := newLink(Config{Logger: zap.NewNop()}, Server{Name: "x"})
	l.update(func(s *snapshot) { s.state = Ready })
	op := operation{kind: opToolCall, about: "a"}
	for want, err := range errorsOfServers() {
		code, text, _ := strings.Cut(want, ": ")
		got := l.explain(t.Context(), op, err)
		r := tool.Failed(tool.Call{ID: "c"}, got).Result
		if r.Code != code || !strings.Contains(r.Text(), text) {
			t.Errorf("%v becomes %s %q, want %q", err, r.Code, r.Text(), want)
		}
	}
}

func errorsOfServers() map[string]error {
	wire := func(code int64, message, data string) error {
		return fmt.Errorf("calling: %w", &jsonrpc.Error{Code: code, Message: message, Data: json.RawMessage(data)})
	}
	return map[string]error{
		"invalid_arguments: no such page": wire(jsonrpc.CodeInvalidParams, "no such page", ""),
		"invalid_arguments: odd":          wire(jsonrpc.CodeInvalidRequest, "odd", ""),
		"invalid_arguments: broken":       wire(jsonrpc.CodeParseError, "broken", ""),
		"failed: oops":                    wire(jsonrpc.CodeInternalError, "oops", ""),
		"failed: none":                    wire(jsonrpc.CodeMethodNotFound, "none", ""),
		"failed: error -32099":            wire(-32099, "", ""),
		"unavailable: not available":      fmt.Errorf("%w: %w", wire(sdkRejected, "rejected", ""), &url.Error{Op: "Post", URL: "http://x/?key=1", Err: io.EOF}),
		"unavailable: EOF":                &url.Error{Op: "Post", URL: "http://x/?key=1", Err: io.EOF},
		"elicitation_required: a person must open https://x.test/1, https://x.test/2 first": wire(sdk.CodeURLElicitationRequired, "", `{"elicitations":[{"url":"https://x.test/1"},{"url":"https://x.test/2"}]}`),
		"elicitation_required: a URL that it does not name":                                 wire(sdk.CodeURLElicitationRequired, "", `{}`),
	}
}
