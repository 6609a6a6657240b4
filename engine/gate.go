package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// GateTool is the tool that runs the gates of tasks on workers. No model is shown it
// and none can call it: hosts leave it out of what sessions may use.
const GateTool = "turnlog_gate"

// gateTimeout is how long a gate may take on a worker.
const gateTimeout = time.Hour

type gateInput struct {
	Argv []string `json:"argv" jsonschema:"The command of the gate."`
}

// Describe names the request for permission: a gate is a command like any other.
func (in gateInput) Describe() (kind, summary string, about any) {
	return "shell.command", "run the gate " + strings.Join(in.Argv, " "), struct {
		Argv []string `json:"argv"`
		Cwd  string   `json:"cwd"`
	}{in.Argv, "."}
}

// NewGateTool returns the tool that runs gates in the directory root.
func NewGateTool(root string) (tool.Tool, error) {
	dir, err := tool.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	runner := NewRunner(Config{})
	return tool.Func(GateTool, "Runs the gate of a task, which says whether its work is done. Models are not shown it.",
		func(ctx context.Context, in gateInput) (tool.Output, error) {
			if len(in.Argv) == 0 {
				return tool.Output{}, &tool.Error{Code: tool.CodeInvalidArguments, Message: "argv: is empty, want a command"}
			}
			return runner.gate(ctx, in.Argv, dir.Dir())
		},
		tool.WithSpec(func(s *tool.Spec) { s.Effects, s.Timeout = content.Idempotent, gateTimeout }))
}

// gate runs a gate as a host without workers does. Its verdict is the output, and its
// end the end of the call, also when it was told to stop.
func (r *Runner) gate(ctx context.Context, argv []string, dir string) (tool.Output, error) {
	rep, ok := r.Verify(ctx, loop.Verify{Gate: argv}, nil, dir).(commands.ReportVerify)
	if !ok || ctx.Err() != nil {
		return tool.Output{}, context.Cause(ctx)
	}
	raw, err := json.Marshal(rep.Finished)
	if err != nil {
		return tool.Output{}, fmt.Errorf("write the verdict: %w", err)
	}
	return tool.Output{Parts: []content.Part{content.StructuredPart(raw)}}, nil
}

// GateCall returns the call that runs a task's gate on a worker of a queue. Running
// it twice does no harm.
func GateCall(turn *loop.Turn, v loop.Verify, queue string) loop.Call {
	input, _ := json.Marshal(gateInput{v.Gate}) // strings always can be
	place := GatePlace(turn.N, v.Attempt)
	return loop.Call{
		ToolCall: content.ToolCall{ID: content.CallID(place), Place: place, Name: GateTool, Input: input},
		Turn:     turn.ID, Round: turn.Round, Attempt: 1,
		Routing: content.Routing{Known: true, Queue: queue, Effects: content.Idempotent, Timeout: gateTimeout},
	}
}

// GatePlace is where a gate stands among the calls of its session: tN-vA, turn N,
// verification A. No call that a model makes is there.
func GatePlace(turn, attempt int) content.Place {
	return content.Place(fmt.Sprintf("t%d-v%d", turn, attempt))
}

// GateVerdict is what a gate's call brought. A call that broke is a gate that could
// not say.
func GateVerdict(attempt int, r tool.Result) events.VerifyFinished {
	var f events.VerifyFinished
	err := errors.New("no verdict")
	for _, p := range r.Result.Output {
		if p.Kind == content.StructuredKind {
			err = json.Unmarshal(p.Data, &f)
		}
	}
	if r.Result.Status != content.StatusOK || err != nil {
		f = events.VerifyFinished{Exit: -1, Output: r.Result.Text(), Duration: r.Duration}
	}
	f.Attempt = attempt
	return f
}
