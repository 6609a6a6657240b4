package output

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

// CodeGone is the code of a failure: the store has no output of that name, for this
// session.
const CodeGone = "output_gone"

// Bounds of one reading.
const (
	maxRead     = 64 << 10
	defaultRead = 16 << 10
	maxMatches  = 50
	maxShown    = 300 // bytes of a line that a search shows
)

type readInput struct {
	ID     string `json:"id" jsonschema:"The id of the output, as the result said that was cut."`
	Offset int    `json:"offset,omitempty" jsonschema:"The byte to begin at. The beginning if left out."`
	Limit  int    `json:"limit,omitempty" jsonschema:"How many bytes to read. 16384 if left out."`
	Search string `json:"search,omitempty" jsonschema:"Instead of reading on, show the lines from offset on that match this regular expression (RE2 syntax), with the offset of each."`
}

// NewReader returns the tool output_read over a store.
func NewReader(store Store) (tool.Tool, error) {
	return tool.CallFunc(ReadTool,
		"Reads an output that was too long for its result, in pieces. The first line of the answer says which bytes follow, and where to go on. With search it shows matching lines instead.",
		func(ctx context.Context, c tool.Call, in readInput) (string, error) { return read(ctx, store, c, in) },
		tool.ReadOnly(), tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["id"].MinLength = new(1)
			s.Properties["offset"].Minimum = new(0.0)
			s.Properties["limit"].Minimum, s.Properties["limit"].Maximum = new(1.0), new(float64(maxRead))
		}))
}

func read(ctx context.Context, store Store, c tool.Call, in readInput) (string, error) {
	data, ok, err := store.Get(ctx, in.ID)
	if err != nil {
		return "", err
	}
	text, own := open(c.Session, data)
	if !ok || !own {
		return "", tool.Failure(CodeGone, "there is no output %.80q: it is not kept any more, or was not of this session. Make the call again, with less output", in.ID)
	}
	if in.Offset >= len(text) && in.Offset > 0 {
		return "", &tool.Error{Code: tool.CodeInvalidArguments, Message: fmt.Sprintf("offset: is %d, but the output has %d bytes", in.Offset, len(text))}
	}
	if in.Search != "" {
		return search(text, in)
	}
	from := boundary(text, in.Offset)
	limit := in.Limit
	if limit == 0 {
		limit = defaultRead
	}
	to := min(from+limit, len(text))
	for to < len(text) && to > from && !utf8.RuneStart(text[to]) {
		to--
	}
	if to == from && to < len(text) { // not even one character fits: take it all the same, or nobody ever gets on
		to = boundary(text, from+1)
	}
	next := "the end"
	if to < len(text) {
		next = fmt.Sprintf("go on with offset %d", to)
	}
	return fmt.Sprintf("output: bytes %d to %d of %d; %s\n%s", from, to, len(text), next, text[from:to]), nil
}

// boundary is where the next character begins, at i or after it.
func boundary(text string, i int) int {
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}

func search(text string, in readInput) (string, error) {
	re, err := regexp.Compile(in.Search)
	if err != nil {
		return "", &tool.Error{Code: tool.CodeInvalidArguments, Message: fmt.Sprintf("search: %v", err)}
	}
	var b strings.Builder
	at, found := boundary(text, in.Offset), 0
	for line := range strings.Lines(text[at:]) {
		bare := strings.TrimRight(line, "\r\n")
		if m := re.FindStringIndex(bare); m != nil {
			if found == maxMatches {
				fmt.Fprintf(&b, "[stopped after %d: go on with offset %d]\n", maxMatches, at)
				return b.String(), nil
			}
			found++
			fmt.Fprintf(&b, "%d: %s\n", at, excerpt(bare, m[0]))
		}
		at += len(line)
	}
	if found == 0 {
		return fmt.Sprintf("no line from byte %d on matches\n", in.Offset), nil
	}
	fmt.Fprintf(&b, "[matching lines: %d; each with its offset]\n", found)
	return b.String(), nil
}

// excerpt is a line, or what surrounds the match in a long one.
func excerpt(line string, match int) string {
	if len(line) <= maxShown {
		return line
	}
	from := boundary(line, max(0, min(match-maxShown/3, len(line)-maxShown)))
	to := boundary(line, min(from+maxShown, len(line)))
	short := line[from:to]
	if from > 0 {
		short = "…" + short
	}
	if to < len(line) {
		short += "…"
	}
	return short
}
