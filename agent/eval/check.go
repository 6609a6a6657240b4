package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/tool"
)

// String describes the check in one line: its kind, and what it wants.
func (c Check) String() string {
	kinds, want := c.kinds()
	kind := strings.Join(kinds, " ")
	switch want := want.(type) {
	case *Judge:
		return fmt.Sprintf("%s %q", kind, want.Question)
	case string:
		return fmt.Sprintf("%s %q", kind, want)
	case map[string]any:
		return kind
	}
	return fmt.Sprintf("%s %v", kind, want)
}

// String is the tool and the arguments.
func (c Calls) String() string {
	out := c.Tool
	if len(c.With) > 0 {
		raw, _ := json.Marshal(c.With) // it was read from YAML
		out += " " + string(raw)
	}
	if c.Min > 0 || c.Max > 0 {
		out += fmt.Sprintf(" min %d max %d", c.Min, c.Max)
	}
	return out
}

// count returns how many of the calls match.
func (c Calls) count(calls []content.ToolCall) (n int) {
	for _, call := range calls {
		if content.Matches(c.Tool, call.Name) && c.fits(call.Input) {
			n++
		}
	}
	return n
}

// fits reports whether a call has the arguments.
func (c Calls) fits(input json.RawMessage) bool {
	var has map[string]json.RawMessage
	if len(c.With) > 0 && json.Unmarshal(input, &has) != nil {
		return false
	}
	for key, want := range c.With {
		raw, err := json.Marshal(want)
		if err != nil || !bytes.Equal(tool.Canonical(raw), tool.Canonical(has[key])) || has[key] == nil {
			return false
		}
	}
	return true
}

// problem returns what is wrong, or "". The runner handles commands and judges.
func (c Check) problem(f facts) string {
	switch {
	case c.Calls != nil:
		return c.Calls.problem(f.calls)
	case c.NoCalls != nil:
		if n := c.NoCalls.count(f.calls); n > 0 {
			return "the model made " + render.Plural(n, "such call", "such calls")
		}
	case c.Contains != "" && !strings.Contains(strings.ToLower(f.answer), strings.ToLower(c.Contains)),
		c.NotContains != "" && strings.Contains(strings.ToLower(f.answer), strings.ToLower(c.NotContains)),
		c.Matches != "" && !regexp.MustCompile(c.Matches).MatchString(f.answer): // Load has checked the expression
		return "the answer is " + quoted(f.answer)
	case c.Schema != nil:
		return c.mismatch(f.answer)
	case c.MaxTokens != 0 && f.Usage.TotalTokens() > c.MaxTokens:
		return fmt.Sprintf("%d tokens", f.Usage.TotalTokens())
	case c.MaxCost != 0:
		return c.excess(f.Usage)
	case c.MaxRounds != 0 && f.Rounds > c.MaxRounds:
		return fmt.Sprintf("%d rounds", f.Rounds)
	}
	return ""
}

func (c Calls) problem(calls []content.ToolCall) string {
	least := c.Min
	if c.Min == 0 && c.Max == 0 {
		least = 1
	}
	n := c.count(calls)
	if n >= least && (c.Max == 0 || n <= c.Max) {
		return ""
	}
	made := make([]string, len(calls))
	for i, call := range calls {
		made[i] = call.Name + " " + string(tool.Canonical(call.Input))
	}
	if len(made) == 0 {
		made = []string{"none"}
	}
	return fmt.Sprintf("the model made %s, of all: %s", render.Plural(n, "such call", "such calls"), quoted(strings.Join(made, ", ")))
}

func (c Check) mismatch(answer string) string {
	var v any
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		return "the answer is not JSON: " + quoted(answer)
	}
	s, err := compile(c.Schema)
	if err == nil {
		err = s.Check(v)
	}
	if err != nil {
		return fmt.Sprintf("the answer does not fit: %v", err)
	}
	return ""
}

// excess returns what is wrong with the cost. An unknown cost is not zero.
func (c Check) excess(u content.Usage) string {
	switch {
	case u.CostMicros == 0 && u.TotalTokens() > 0:
		return "the cost is unknown: set TURNLOG_PRICES where the model runs"
	case u.CostMicros > int64(math.Round(c.MaxCost*1e6)):
		return u.Cost()
	}
	return ""
}

// shown limits how many bytes of a text a problem quotes.
const shown = 300

func quoted(text string) string { return fmt.Sprintf("%q", content.Clip(text, shown)) }

// Exit codes of a command that cannot decide, as for "turnlog bisect". The last two come from the shell: the command
// cannot be run.
const (
	cannotTell = 125
	notFound   = 127
)

// command runs a command about an answer. It returns what is wrong, or "".
func command(ctx context.Context, text, folder string, id content.SessionID, answer string, within time.Duration) (string, error) {
	limited, stop := context.WithTimeout(ctx, within)
	defer stop()
	out := tool.NewClip(4 * shown)
	state, err := procgroup.Run(limited, procgroup.Command{
		Args: []string{"sh", "-c", text}, Dir: folder, Env: append(os.Environ(), "TURNLOG_EVAL_SESSION="+string(id)),
		Input: strings.NewReader(answer), Output: out, Grace: time.Second,
	})
	said, _ := out.Text()
	said = quoted(strings.TrimSpace(said))
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("run the command %q: %w", text, err)
	case !state.Success() && limited.Err() != nil:
		return fmt.Sprintf("it does not end within %v: %s", within, said), nil
	case state.ExitCode() >= cannotTell && state.ExitCode() <= notFound:
		return "", fmt.Errorf("the command %q has no verdict (exit code %d): %s", text, state.ExitCode(), said)
	case state.ExitCode() != 0:
		return fmt.Sprintf("%v: %s", state, said), nil
	}
	return "", nil
}
