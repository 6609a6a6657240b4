package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// logging records when a call begins and ends.
func logging(log *[]string, name string) tool.Middleware {
	return func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
		*log = append(*log, name+" in "+c.Name)
		out, err := next(ctx, c)
		*log = append(*log, name+" out")
		return out, err
	}
}

type city struct {
	Name string `json:"name"`
}

func weather(t *testing.T) tool.Tool {
	t.Helper()
	x, err := tool.Func("weather", "Tells the weather.", func(_ context.Context, c city) (string, error) {
		return "It rains in " + c.Name, nil
	}, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func callOf(name, input string) tool.Call {
	return tool.Call{ID: "c1", Name: name, Input: json.RawMessage(input)}
}

func TestMiddlewareWrapsCalls(t *testing.T) {
	t.Parallel()
	var log []string
	r, err := tool.NewRegistry("own", tool.Wrap(weather(t), logging(&log, "own 1"), logging(&log, "own 2")))
	if err != nil {
		t.Fatal(err)
	}
	c, err := tool.Sample(t.Context(), []tool.Source{tool.WrapSource(r, logging(&log, "all"))}, tool.FirstWins)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := c.Lookup("weather")
	if !ok || o.Source != "own" {
		t.Fatalf("offer = %+v", o)
	}
	got := tool.Invoke(t.Context(), o.Tool, callOf("weather", `{"name":"Bergen"}`)).Result
	if got.Text() != "It rains in Bergen" {
		t.Errorf("result = %q", got.Text())
	}
	want := []string{"all in weather", "own 1 in weather", "own 2 in weather", "own 2 out", "own 1 out", "all out"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if o.Digest != tool.SpecDigest(weather(t).Spec()) {
		t.Error("middleware has changed the digest of the spec")
	}
	log = nil
	if got := tool.Invoke(t.Context(), o.Tool, callOf("weather", `{"name":1}`)).Result; got.Code != tool.CodeInvalidArguments || log != nil {
		t.Errorf("bad input: %q, and the middleware saw it: %v", got.Text(), log)
	}
}

func TestMiddlewareMayChangeInputAndOutput(t *testing.T) {
	t.Parallel()
	input := func(raw string) tool.Middleware {
		return func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
			c.Input = json.RawMessage(raw)
			return next(ctx, c)
		}
	}
	for name, row := range map[string]struct {
		around tool.Middleware
		text   string
		code   string
	}{
		"input":     {input(`{"name":"Oslo"}`), "It rains in Oslo", ""},
		"bad input": {input(`{"name":1}`), "Invalid arguments: name: got number, want string", tool.CodeInvalidArguments},
		"answer": {func(context.Context, tool.Call, tool.Handler) (tool.Output, error) {
			return tool.Text("sunny"), nil
		}, "sunny", ""},
		"error": {func(context.Context, tool.Call, tool.Handler) (tool.Output, error) {
			return tool.Output{}, tool.Retry("Name a city in Norway.")
		}, "Name a city in Norway.", tool.CodeRetry},
		"output": {func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
			out, err := next(ctx, c)
			out.Parts = append(out.Parts, content.TextPart(", they say"))
			return out, err
		}, "It rains in Bergen\n, they say", ""},
		"panic": {func(context.Context, tool.Call, tool.Handler) (tool.Output, error) { panic("odd") }, "Tool failed: it panicked: odd", tool.CodePanic},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tool.Invoke(t.Context(), tool.Wrap(weather(t), row.around), callOf("weather", `{"name":"Bergen"}`)).Result
			if strings.ReplaceAll(r.Text(), "\n", "") != strings.ReplaceAll(row.text, "\n", "") || r.Code != row.code {
				t.Errorf("result = %q, %q, want %q, %q", r.Text(), r.Code, row.text, row.code)
			}
		})
	}
}

// proposing is a tool that proposes a request.
type proposing struct{ plain }

func (p proposing) Propose(_ context.Context, c tool.Call) ([]tool.Request, error) {
	r := tool.RequestFor(p.spec, c)
	r.Kind, r.Summary = "thing.do", "as "+c.Name
	return []tool.Request{r}, nil
}

func TestMiddlewareKeepsProposals(t *testing.T) {
	t.Parallel()
	x := tool.Wrap(proposing{named("do", "Does.")}, logging(new([]string), "m"))
	got, err := x.(tool.Proposer).Propose(t.Context(), tool.Call{Name: "do"})
	if err != nil || len(got) != 1 || got[0].Kind != "thing.do" {
		t.Errorf("requests = %+v, %v", got, err)
	}
}

func TestWrapWithoutMiddlewareReturnsTheTool(t *testing.T) {
	t.Parallel()
	x := weather(t)
	if tool.Wrap(x) != x {
		t.Error("Wrap without middleware made another tool")
	}
	r, err := tool.NewRegistry("own", x)
	if err != nil {
		t.Fatal(err)
	}
	if tool.WrapSource(r) != tool.Source(r) {
		t.Error("WrapSource without middleware made another source")
	}
}

func TestHostIsNotifiedOfAQuestion(t *testing.T) {
	t.Parallel()
	ask := tool.NeedsApproval(tool.Verdict{RequestKind: "filesystem.write", Summary: "write /etc/hosts"})
	var asked []tool.Verdict
	v := tool.Invoker{OnQuestion: func(c tool.Call, g tool.Verdict) {
		if c.ID != "c1" {
			t.Errorf("the question of call %q", c.ID)
		}
		asked = append(asked, g)
	}}
	r := v.Invoke(t.Context(), failing(ask), tool.Call{ID: "c1"}).Result
	if r.Status != content.StatusDenied || r.Code != tool.CodeNeedsApproval || r.Text() != "Permission denied: needs_approval: write /etc/hosts" {
		t.Errorf("result for hosts that cannot ask = %s %s %q", r.Status, r.Code, r.Text())
	}
	want := []tool.Verdict{{
		Ruling: tool.Ask, RequestKind: "filesystem.write", Reason: content.PolicyRequiresConfirmation, Summary: "write /etc/hosts",
	}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	r = v.Invoke(t.Context(), failing(ask), tool.Call{ID: "c1", Approved: []content.QuestionKey{{Kind: "filesystem.write"}}}).Result
	if r.Status != content.StatusError || !strings.Contains(r.Text(), "was approved") || len(asked) != 1 {
		t.Errorf("a tool that asks again gets %s %q, and %d questions", r.Status, r.Text(), len(asked))
	}
	asked = nil
	v.Invoke(t.Context(), failing(errors.Join(errors.New("no"), tool.NeedsApproval(tool.Verdict{}))), tool.Call{ID: "c1", Name: "fails"})
	if len(asked) != 1 || asked[0].RequestKind != "fails" || asked[0].Summary != "fails" {
		t.Errorf("a bare question = %+v, want it about the tool", asked)
	}
}
