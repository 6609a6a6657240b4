package tooltest

import (
	"testing"
	"time"

	"github.com/turnlog/turnlog/tool"
)

// RunWithin is Run with another time limit.
func RunWithin(t *testing.T, patience time.Duration, x tool.Tool, cases ...Case) {
	t.Helper()
	suite{tool: x, spec: x.Spec(), cases: cases, patience: patience}.run(t)
}
