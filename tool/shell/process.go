package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

var errTimeout = errors.New("the command ran out of time")

// process is one command.
type process struct {
	*shell

	call    tool.Call
	cmd     sandbox.Command
	env     []string
	timeout time.Duration
}

// exit is the structured part of the output.
type exit struct {
	Code     int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	Duration int64  `json:"duration_ms"`
	Cut      int64  `json:"cut_bytes,omitempty"`
}

// run starts the command, waits for it or stops it, and returns its output.
func (p process) run(ctx context.Context) (tool.Output, error) {
	if ctx.Err() != nil {
		return tool.Output{}, context.Cause(ctx)
	}
	start := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout)
	defer cancel()
	out := p.call.Spool(maxOutput)
	defer out.Close()
	argv := p.box.Wrap(p.cmd)
	state, err := procgroup.Run(limited, procgroup.Command{
		Path: argv[0], Args: argv, Dir: p.cmd.Dir, Env: p.env, Output: &sink{spool: out, progress: p.call.Progress}, Grace: p.opts.Grace,
	})
	if err != nil {
		return tool.Output{}, notStarted(p.cmd.Argv[0], err)
	}
	stopped := !state.Success() && limited.Err() != nil
	if stopped && ctx.Err() != nil {
		return tool.Output{}, context.Cause(ctx)
	}
	text := out.Part(ctx).Text
	if stopped {
		wrote := "it had written nothing"
		if text != "" {
			wrote = "until then it wrote:\n" + text
		}
		return tool.Output{}, tool.Failure(tool.CodeTimeout, "the command was stopped after %s; %s", p.timeout, wrote)
	}
	e := exit{Code: state.ExitCode(), Duration: time.Since(start).Milliseconds(), Cut: out.Cut()}
	if !state.Exited() {
		e.Signal = strings.TrimPrefix(state.String(), "signal: ")
	}
	return report(text, e, state)
}

func report(text string, e exit, state *os.ProcessState) (tool.Output, error) {
	if text == "" {
		text = "[no output]\n"
	} else if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if !state.Success() {
		text += fmt.Sprintf("[%s]\n", state)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return tool.Output{}, fmt.Errorf("write the result: %w", err)
	}
	return tool.Output{Parts: []content.Part{content.TextPart(text), content.StructuredPart(raw)}}, nil
}

// sink receives the output of a command and reports its last line as progress.
type sink struct {
	spool    *tool.Spool
	progress func(text string, share float64) // limits how often it reports
	last     []byte                           // the latest bytes
}

// lastLineRoom is how much of the latest output is searched for its last line.
const lastLineRoom = 500

// Write takes all of b.
func (s *sink) Write(b []byte) (int, error) {
	s.last = append(s.last, b[max(0, len(b)-lastLineRoom):]...)
	s.last = append(s.last[:0], s.last[max(0, len(s.last)-lastLineRoom):]...)
	text := bytes.TrimSpace(s.last)
	if line := bytes.TrimSpace(text[bytes.LastIndexAny(text, "\r\n")+1:]); len(line) > 0 {
		s.progress(string(line), 0)
	}
	return s.spool.Write(b)
}
