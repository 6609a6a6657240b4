package permission_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// proposing is a tool that makes the requests it is given.
type proposing struct {
	requests []tool.Request
	err      error
}

func (p proposing) Spec() tool.Spec { return tool.Spec{Name: "x", Effects: content.Idempotent} }

func (p proposing) Propose(context.Context, tool.Call) ([]tool.Request, error) {
	return p.requests, p.err
}

func (p proposing) Call(context.Context, tool.Call) (tool.Output, error) {
	return tool.Text("done"), nil
}

// byKind returns verdicts by kind.
type byKind map[string]tool.Verdict

func (b byKind) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if r.Session != "s" || r.Call.ID != "c" || r.Spec.Effects != content.Idempotent {
		return tool.Verdict{}, errors.New("the request lacks its session, call or spec")
	}
	return b[r.Kind], nil
}

func TestJudgeAsksAboutEveryRequest(t *testing.T) {
	t.Parallel()
	ask := tool.Verdict{Ruling: tool.Ask}
	policy := byKind{
		"yes": {Ruling: tool.Allow}, "no": {Ruling: tool.Deny, Code: "nope", Message: "not here"}, "bare no": {Ruling: tool.Deny},
		"ask": ask, "also": {Ruling: tool.Ask, RequestKind: "own", Also: []tool.Verdict{{RequestKind: "other"}}}, "odd": {Ruling: 9},
	}
	of := func(kinds ...string) proposing {
		var p proposing
		for i, k := range kinds {
			p.requests = append(p.requests, tool.Request{Kind: k, Summary: k + string(rune('1'+i))})
		}
		return p
	}
	for name, tc := range map[string]struct {
		tool      proposing
		refused   string
		questions []string
		summary   string // of the first question
	}{
		"nothing proposed":              {tool: of()},
		"allowed":                       {tool: of("yes", "no opinion")},
		"one question":                  {tool: of("yes", "ask"), questions: []string{"ask"}, summary: "ask2"},
		"the same question twice":       {tool: of("ask", "ask"), questions: []string{"ask"}, summary: "ask1; ask2"},
		"questions of several requests": {tool: of("ask", "also"), questions: []string{"ask", "own", "other"}, summary: "ask1"},
		"a denial wins":                 {tool: of("ask", "no", "also"), refused: "denied nope Permission denied: nope: not here"},
		"a denial without words":        {tool: of("bare no"), refused: "denied permission_denied Permission denied: permission_denied: "},
		"an unknown ruling":             {tool: of("odd"), refused: "denied permission_denied Permission denied: permission_denied: unknown ruling 9"},
		"a tool that cannot propose":    {tool: proposing{err: errors.New("no idea")}, refused: "error failed Tool failed: no idea"},
	} {
		call := tool.Call{Session: "s", ID: "c", Name: "x"}
		asked, err := permission.Judge(t.Context(), policy, tc.tool, call)
		refused := ""
		if err != nil {
			r := tool.Failed(call, err).Result
			refused = string(r.Status) + " " + r.Code + " " + r.Text()
		}
		var questions []string
		for _, q := range asked {
			questions = append(questions, q.RequestKind)
			if q.Reason != content.PolicyRequiresConfirmation || q.Ruling != tool.Ask {
				t.Errorf("%s: question %+v", name, q)
			}
		}
		if refused != tc.refused || !slices.Equal(questions, tc.questions) {
			t.Errorf("%s: refused %q, questions %v, want %q and %v", name, refused, questions, tc.refused, tc.questions)
		}
		if tc.summary != "" && asked[0].Summary != tc.summary {
			t.Errorf("%s: summary %q, want %q", name, asked[0].Summary, tc.summary)
		}
	}
	_, err := permission.Judge(t.Context(), byKind{}, of("yes"), tool.Call{})
	if denied, ok := errors.AsType[*tool.Error](err); !ok || !denied.Forbidden {
		t.Errorf("a policy that fails: %v, want a denial", err)
	}
}

// A tool that proposes nothing is judged by its name and input.
func TestJudgeOfAToolThatProposesNothing(t *testing.T) {
	t.Parallel()
	asked, err := permission.Judge(t.Context(), says{Ruling: tool.Ask}, silent{}, tool.Call{Name: "silent", Input: json.RawMessage(`{"a":1}`)})
	if err != nil || len(asked) != 1 || asked[0].RequestKind != "silent" || asked[0].Summary != `silent {"a":1}` || asked[0].Scope != "" {
		t.Errorf("Judge = %+v, %v", asked, err)
	}
}

type silent struct{}

func (silent) Spec() tool.Spec { return tool.Spec{Name: "silent"} }
func (silent) Call(context.Context, tool.Call) (tool.Output, error) {
	return tool.Text("done"), nil
}

// write is a tool that proposes the path it writes.
func write(t *testing.T) tool.Tool {
	t.Helper()
	w, err := tool.Func("write", "Writes.", func(_ context.Context, in writing) (string, error) { return "wrote " + in.Path, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type writing struct {
	Path string `json:"path"`
}

func (w writing) Describe() (kind, summary string, target any) {
	return "filesystem.write", "write " + w.Path, w
}

// An approval answers one question about this call, for the current target only.
func TestGuardJudgesJustBeforeTheCall(t *testing.T) {
	t.Parallel()
	top := tree(t, "work/.git/x", "one/", "two/", "work/link -> ../one")
	p := paths(t, filepath.Join(top, "work"), permission.PathRules{Protect: []string{".git"}, Allow: []string{"."}})
	w := write(t)
	guarded := tool.Wrap(w, permission.Guard(p, w))
	call := func(path string, approved ...content.QuestionKey) (content.ToolResult, *tool.Verdict) {
		var asked *tool.Verdict
		v := tool.Invoker{OnQuestion: func(_ tool.Call, v tool.Verdict) { asked = &v }}
		r := v.Invoke(t.Context(), guarded, tool.Call{ID: "c", Name: "write", Input: json.RawMessage(`{"path":"` + path + `"}`), Approved: approved})
		return r.Result, asked
	}
	if r, asked := call("a"); r.Text() != "wrote a" || asked != nil {
		t.Errorf("allowed: %+v, %+v", r, asked)
	}
	if r, _ := call(".git/x"); r.Status != content.StatusDenied || r.Code != permission.CodeProtected ||
		r.Text() != `Permission denied: path_protected: path ".git/x" is protected` {
		t.Errorf("protected: %+v", r)
	}
	r, asked := call("link/new")
	key := content.QuestionKey{Kind: "filesystem.write", Scope: filepath.Join(top, "one", "new")}
	if asked == nil || asked.Key() != key || r.Status != content.StatusDenied {
		t.Fatalf("outside: %+v, %+v, want to be asked about %v", r, asked, key)
	}
	if r, asked := call("link/new", key); r.Text() != "wrote link/new" || asked != nil {
		t.Errorf("approved: %+v, %+v", r, asked)
	}
	if _, asked := call("link/other", key); asked == nil {
		t.Error("the approval of one file opened another")
	}
	if err := errors.Join(os.Remove(filepath.Join(top, "work/link")), os.Symlink("../two", filepath.Join(top, "work/link"))); err != nil {
		t.Fatal(err)
	}
	if _, asked := call("link/new", key); asked == nil || asked.Scope != filepath.Join(top, "two", "new") {
		t.Errorf("the link leads elsewhere now: %+v, want to be asked again", asked)
	}
}

func TestGuardReportsAToolThatCannotPropose(t *testing.T) {
	t.Parallel()
	p := proposing{err: errors.New("no idea")}
	r := tool.Invoke(t.Context(), tool.Wrap(p, permission.Guard(tool.AllowAll{}, p)), tool.Call{ID: "c"})
	if r.Result.Status != content.StatusError || r.Result.Text() != "Tool failed: no idea" {
		t.Errorf("result = %+v", r.Result)
	}
}

func TestARunningCallIsDeniedByARulingFromALaterRelease(t *testing.T) {
	t.Parallel()
	p := byKind{"k": {Ruling: tool.Ask + 1}}
	err := permission.Permit(p, proposing{}, tool.Call{Session: "s", ID: "c"})(t.Context(), "k", "", nil)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tool.CodeDenied {
		t.Errorf("Permit = %v, want a denial", err)
	}
}
