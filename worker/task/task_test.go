package task_test

import (
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/worker/task"
)

func TestLaterDispatchSupersedesAnEarlierOne(t *testing.T) {
	t.Parallel()
	approved := []content.QuestionKey{{Kind: "filesystem.write"}}
	order := []task.Task{{Attempt: 1}, {Attempt: 1, Approved: approved}, {Attempt: 2}, {Attempt: 2, Approved: approved}}
	for i, x := range order {
		for j, other := range order {
			if got, want := x.Supersedes(other), i > j; got != want {
				t.Errorf("dispatch %d supersedes dispatch %d: %v, want %v", i+1, j+1, got, want)
			}
		}
	}
}
