package demo_test

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/demo"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

func TestModelConforms(t *testing.T) {
	t.Parallel()
	root := project(t)
	var requests []model.Request
	for _, prompt := range []string{"Which Go files here are the longest, and what do they do?", "read nothing.txt", "hello"} {
		c := ask(t, root, prompt)
		for i, it := range c.items {
			if it.Kind == content.Assistant {
				requests = append(requests, model.Request{Attempt: 1, Transcript: c.items[:i], Tools: c.specs})
			}
		}
	}
	modeltest.Run(t, modeltest.Factory{
		New:      func(testing.TB) model.Model { return demo.New() },
		Requests: append(requests, modeltest.Ask("no tools at all")),
		Features: modeltest.Features{Deterministic: true},
	})
}

func TestEachTurnIsPlannedOnItsOwn(t *testing.T) {
	t.Parallel()
	c := ask(t, project(t), "read go.mod")
	r := model.Request{Transcript: append(c.items, content.UserText("now list the files")), Tools: c.specs}
	reply, err := demo.New().Call(t.Context(), r, func(content.Delta) {})
	if err != nil {
		t.Fatal(err)
	}
	calls := reply.Items[0].Calls()
	if len(calls) != 1 || calls[0].Name != "fs_list_directory" || calls[0].ProviderID != "demo_3_1" {
		t.Errorf("calls = %+v, want a listing with the id demo_3_1", calls)
	}
}

func TestUsageCountsWords(t *testing.T) {
	t.Parallel()
	reply, err := demo.New().Call(t.Context(), modeltest.Ask("say something nice"), func(content.Delta) {})
	if err != nil {
		t.Fatal(err)
	}
	want := content.Usage{InputTokens: 3, OutputTokens: int64(len(strings.Fields(reply.Items[0].Text())))}
	if reply.Usage != want {
		t.Errorf("usage = %+v, want %+v", reply.Usage, want)
	}
}

// FuzzCall gives every tool call the same output. Any prompt and any output must
// lead to an answer.
func FuzzCall(f *testing.F) {
	names := []string{"fs_count", "fs_list_directory", "fs_read_file", "fs_search"}
	for _, prompt := range []string{
		"Which Go files here are the longest, and what do they do?", "show lines 3-2 of a.go", "what does x.md do", "tree a/..", "what is this",
	} {
		f.Add(prompt, "a.go:1: func X() {\na.go-2- }\n[stopped there]\n", false)
		f.Add(prompt, `{"files":[{"path":"x_test.go","lines":-3}],"total":{"files":2}}`, false)
		f.Add(prompt, "a.go: lines 7 to 2 of 1 (9 bytes)\npackage a\n/* Package a", false)
		f.Add(prompt, "dir/\n\"q\\n\" (3 bytes)\na -> b\n", true)
	}
	f.Fuzz(func(t *testing.T, prompt, output string, failing bool) {
		status := content.StatusOK
		if failing {
			status = content.StatusError
		}
		r := model.Request{Transcript: []content.Item{content.UserText(prompt)}}
		for _, name := range names {
			r.Tools = append(r.Tools, tool.Spec{Name: name})
		}
		for range 4 {
			reply, err := demo.New().Call(t.Context(), r, func(content.Delta) {})
			if err != nil {
				t.Fatal(err)
			}
			calls := reply.Items[0].Calls()
			if len(calls) == 0 {
				return
			}
			r.Transcript = append(r.Transcript, reply.Items...)
			for _, c := range calls {
				r.Transcript = append(r.Transcript, content.NewItem(content.Tool,
					content.ResultPart(content.NewResult(content.CallID(c.ProviderID), c.Name, status, output))))
			}
		}
		t.Errorf("%q has no answer after four rounds", prompt)
	})
}
