package extension

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/tool"
)

// HookCommand configures a hook that is a command; see [NewHookCommand].
type HookCommand struct {
	Name    string
	Points  []Point
	Tools   []string      // only calls of these tools; * matches any characters; none: all
	Argv    []string      // found in this process's PATH, or relative to Dir
	Dir     string        // working directory; "": this process's
	Env     []string      // nil: this process's
	Timeout time.Duration // 0: 30 s
}

const (
	defaultHookTimeout = 30 * time.Second
	hookGrace          = time.Second
	vetoCode           = 2        // exit code of a veto
	maxAnswer          = 64 << 10 // bytes of output that are read; longer output loses its middle
	maxReason          = 2000     // bytes of output that are recorded
)

// NewHookCommand returns a hook that runs a command. The command reads one JSON object from
// stdin: the point, session, turn and round, and, where they apply, the call, result,
// request, reply, and tokens before and after a compaction.
//
// Exit code 0 continues. If stdout then starts with {, it is the decision: an object with an
// action (continue, skip or terminate) and a reason. Any other text is a note for the
// journal. Exit code 2 is a veto with stderr as its reason: it skips the call, and at every
// other point it ends the turn. Any other exit and a timeout are errors. The command's whole
// process group ends with it and with ctx.
func NewHookCommand(c HookCommand) (Hook, error) {
	switch {
	case c.Name == "":
		return nil, errors.New("hook: no name")
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return nil, fmt.Errorf("hook %s: no command", c.Name)
	case len(c.Points) == 0:
		return nil, fmt.Errorf("hook %s: no point", c.Name)
	case c.Timeout < 0:
		return nil, fmt.Errorf("hook %s: timeout %v: use a positive time", c.Name, c.Timeout)
	}
	for _, p := range c.Points {
		switch {
		case !slices.Contains(HookPoints(), p):
			return nil, fmt.Errorf("hook %s: unknown point %q", c.Name, p)
		case len(c.Tools) > 0 && !p.ConcernsCall():
			return nil, fmt.Errorf("hook %s: tools apply only to points with a call, not to %s", c.Name, p)
		}
	}
	c.Points, c.Tools, c.Argv = slices.Clone(c.Points), slices.Clone(c.Tools), slices.Clone(c.Argv)
	c.Timeout = cmp.Or(c.Timeout, defaultHookTimeout)
	return hookCommand{c}, nil
}

// HookPoints lists the points at which hooks run.
func HookPoints() []Point {
	return []Point{
		SessionStart, LoopIteration, PreLlmCall, PostLlmCall, PreToolExecution, PostToolExecution, ContextCompaction, SessionEnd,
	}
}

// ConcernsCall reports whether the point is about one call.
func (p Point) ConcernsCall() bool { return p == PreToolExecution || p == PostToolExecution }

type hookCommand struct{ HookCommand }

// Name returns the hook's name.
func (h hookCommand) Name() string { return h.HookCommand.Name }

// Points returns where the command runs.
func (h hookCommand) Points() []Point { return h.HookCommand.Points }

// OnEvent runs the command.
func (h hookCommand) OnEvent(ctx context.Context, e HookEvent) (Action, error) {
	if !h.concerns(e) {
		return Action{}, nil
	}
	limited, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	state, answer, complaint, err := h.run(limited, e)
	switch {
	case ctx.Err() != nil:
		return Action{}, context.Cause(ctx)
	case err != nil:
		return Action{}, err // the caller adds the hook's name
	case limited.Err() != nil:
		return Action{}, fmt.Errorf("stopped after %s", h.Timeout)
	case state.ExitCode() == vetoCode:
		return Action{Kind: vetoAt(e.Point), Reason: content.Clip(cmp.Or(complaint, answer, "exit code 2"), maxReason)}, nil
	case !state.Success():
		return Action{}, fmt.Errorf("%s: %s", state, content.Clip(cmp.Or(complaint, answer, "no output"), maxReason))
	}
	return decision(answer)
}

func (h hookCommand) concerns(e HookEvent) bool {
	if len(h.Tools) == 0 {
		return true
	}
	return e.Call != nil && slices.ContainsFunc(h.Tools, func(p string) bool { return content.Matches(p, e.Call.Name) })
}

// vetoAt returns the action of a veto: Skip if there is a call to skip, otherwise Terminate.
func vetoAt(p Point) ActionKind {
	if p == PreToolExecution {
		return Skip
	}
	return Terminate
}

// decision parses the output of a command that exited with 0.
func decision(answer string) (Action, error) {
	if !strings.HasPrefix(answer, "{") {
		return Action{Reason: content.Clip(answer, maxReason)}, nil
	}
	var d struct {
		Action string `json:"action"`
		Reason string `json:"reason"`
	}
	dec := json.NewDecoder(strings.NewReader(answer))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Action{}, fmt.Errorf("stdout is not a decision: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Action{}, errors.New("stdout is more than one decision")
	}
	for _, k := range []ActionKind{Continue, Skip, Terminate} {
		if d.Action == k.String() {
			return Action{Kind: k, Reason: content.Clip(d.Reason, maxReason)}, nil
		}
	}
	return Action{}, fmt.Errorf("stdout has the action %q: use continue, skip or terminate", d.Action)
}

// hookInput is the JSON on a command's stdin: the event, but with only the names of tools.
type hookInput struct {
	HookEvent

	Request *hookRequest `json:"request,omitempty"`
	Reply   *hookReply   `json:"reply,omitempty"`
}

type hookRequest struct {
	Transcript []content.Item        `json:"transcript"`
	Tools      []string              `json:"tools"`
	Cache      *content.CacheRequest `json:"cache,omitempty"`
	Schema     json.RawMessage       `json:"schema,omitempty"`
}

type hookReply struct {
	Items        []content.Item       `json:"items"`
	FinishReason content.FinishReason `json:"finish_reason,omitempty"`
	Usage        content.Usage        `json:"usage,omitzero"`
}

func inputOf(e HookEvent) ([]byte, error) {
	in := hookInput{HookEvent: e}
	if r := e.Request; r != nil {
		in.Request = &hookRequest{Transcript: r.Transcript, Cache: r.Cache, Schema: r.Schema}
		for _, t := range r.Tools {
			in.Request.Tools = append(in.Request.Tools, t.Name)
		}
	}
	if r := e.Reply; r != nil {
		in.Reply = &hookReply{Items: r.Items, FinishReason: r.FinishReason, Usage: r.Usage}
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode the event: %w", err)
	}
	return append(raw, '\n'), nil
}

// run runs the command and returns what it wrote to stdout and to stderr.
func (h hookCommand) run(ctx context.Context, e HookEvent) (state *os.ProcessState, answer, complaint string, err error) {
	in, err := inputOf(e)
	if err != nil {
		return nil, "", "", err
	}
	stdout, stderr := tool.NewClip(maxAnswer), tool.NewClip(maxAnswer)
	state, err = procgroup.Run(ctx, procgroup.Command{
		Args: h.Argv, Dir: h.Dir, Env: h.Env, Input: bytes.NewReader(in), Answer: stdout, Output: stderr, Grace: hookGrace,
	})
	answer, _ = stdout.Text()
	complaint, _ = stderr.Text()
	return state, strings.TrimSpace(answer), strings.TrimSpace(complaint), err
}
