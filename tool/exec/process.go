package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// exit is the structured part of the output.
type exit struct {
	Code     int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	Duration int64  `json:"duration_ms"`
	Cut      int64  `json:"cut_bytes,omitempty"`
}

func (s *shell) once(ctx context.Context, c tool.Call, cmd command) (tool.Output, error) {
	start := time.Now()
	out := c.Spool(maxOutput)
	defer out.Close()
	cmd.stderr = &sink{spool: out, progress: c.Progress}
	state, stopped, err := s.run(ctx, cmd)
	if err != nil {
		return tool.Output{}, err
	}
	text := out.Part(ctx).Text
	if stopped {
		wrote := "it had written nothing"
		if text != "" {
			wrote = "until then it wrote:\n" + text
		}
		return tool.Output{}, tool.Failure(tool.CodeTimeout, "the command was stopped after %s; %s", cmd.timeout, wrote)
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

// Write accepts all of b.
func (s *sink) Write(b []byte) (int, error) {
	s.last = append(s.last, b[max(0, len(b)-lastLineRoom):]...)
	s.last = append(s.last[:0], s.last[max(0, len(s.last)-lastLineRoom):]...)
	text := bytes.TrimSpace(s.last)
	if line := bytes.TrimSpace(text[bytes.LastIndexAny(text, "\r\n")+1:]); len(line) > 0 {
		s.progress(string(line), 0)
	}
	return s.spool.Write(b)
}
