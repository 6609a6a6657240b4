package task_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

func TestManagersRouteCalls(t *testing.T) {
	t.Parallel()
	asked := content.Routing{Known: true, Queue: "q", Route: content.DetachSoon, DetachAfter: time.Second}
	background := func(content.ToolCall, content.Routing) (content.Route, time.Duration) { return content.Background, 0 }
	for name, tc := range map[string]struct {
		m        task.Manager
		want     content.Routing
		parallel int // of three
	}{
		"simple": {m: task.Simple(), want: content.Routing{Known: true, Queue: "q"}},
		"async":  {m: task.Async(task.AsyncConfig{}), want: asked, parallel: 3},
		"async with routes": {
			m:        task.Async(task.AsyncConfig{Route: background, Quiet: true, Manual: true}),
			want:     content.Routing{Known: true, Queue: "q", Route: content.Background, Quiet: true, Manual: true},
			parallel: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.m.Route(content.ToolCall{Name: "a"}, asked)); diff != "" {
				t.Errorf("routing (-want +got):\n%s", diff)
			}
			if n, err := tc.m.Parallel(3); n != tc.parallel || (err == nil) != (tc.parallel > 0) {
				t.Errorf("Parallel(3) = %d, %v", n, err)
			}
			if n, err := tc.m.Parallel(1); n != 1 || err != nil {
				t.Errorf("Parallel(1) = %d, %v", n, err)
			}
			want := tool.Result{Duration: 7}
			if got := tc.m.Run(t.Context(), task.Task{}, func(context.Context) tool.Result { return want }); got.Duration != 7 {
				t.Errorf("Run = %+v", got)
			}
		})
	}
}
