package tool_test

import (
	"slices"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

func TestVerdictListsEachQuestion(t *testing.T) {
	t.Parallel()
	v := tool.Verdict{Ruling: tool.Ask, RequestKind: "a", Scope: "x", Also: []tool.Verdict{
		{RequestKind: "b", Also: []tool.Verdict{{RequestKind: "c"}}}, {Ruling: tool.Ask, RequestKind: "d"},
	}}
	var kinds []string
	for _, q := range v.Questions() {
		if q.Ruling != tool.Ask || q.Also != nil {
			t.Errorf("question = %+v", q)
		}
		kinds = append(kinds, q.RequestKind)
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(kinds, want) {
		t.Errorf("questions %v, want %v", kinds, want)
	}
	if k := v.Key(); k != (content.QuestionKey{Kind: "a", Scope: "x"}) {
		t.Errorf("key = %+v", k)
	}
}

func TestOnlyOpenQuestionsAreAsked(t *testing.T) {
	t.Parallel()
	ask := tool.NeedsApproval(tool.Verdict{RequestKind: "a", Scope: "x", Also: []tool.Verdict{{RequestKind: "a", Scope: "y"}, {}}})
	var asked []tool.Verdict
	v := tool.Invoker{OnQuestion: func(_ tool.Call, g tool.Verdict) { asked = g.Questions() }}
	v.Invoke(t.Context(), failing(ask), tool.Call{ID: "c1", Name: "fails", Approved: []content.QuestionKey{{Kind: "a", Scope: "x"}, {Kind: "b"}}})
	if len(asked) != 2 || asked[0].Scope != "y" || asked[1].RequestKind != "fails" || asked[1].Reason == "" {
		t.Errorf("asked %+v", asked)
	}
}

func TestForbiddenCallIsDenied(t *testing.T) {
	t.Parallel()
	r := tool.Invoke(t.Context(), failing(tool.Forbidden("path_protected", "not there")), tool.Call{ID: "c1"}).Result
	if r.Status != content.StatusDenied || !r.IsError || r.Code != "path_protected" || r.Text() != "Permission denied: path_protected: not there" {
		t.Errorf("result = %+v", r)
	}
}
