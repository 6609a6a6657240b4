package console

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/turnlog/turnlog/audit/render"
)

func TestMarkdownIsShownAsWhatItMeans(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ source, want string }{
		"a paragraph is filled":       {"one two three four five\nsix", "one two three four\nfive six"},
		"a hard break stays":          {"one  \ntwo", "one\ntwo"},
		"paragraphs are apart":        {"one\n\n\ntwo", "one\n\ntwo"},
		"a heading":                   {"## Title", "Title"},
		"emphasis":                    {"*a* **b** ~~c~~ `d`", "a b c `d`"},
		"a link says where it leads":  {"[a](https://b.example)", "a\n(https://b.example)"},
		"an address is shown once":    {"https://b.example", "https://b.example"},
		"an image":                    {"![a](b.png)", "a (b.png)"},
		"a list hangs":                {"- one two three four five\n- b", "• one two three four\n  five\n• b"},
		"a list inside a list":        {"1. a\n   - b\n2. c", "1. a\n   • b\n2. c"},
		"a list may begin at 7":       {"7. a\n8. b", "7. a\n8. b"},
		"a loose list":                {"- a\n\n- b", "• a\n\n• b"},
		"code is not filled":          {"```go\na\n\tb\n```", "    a\n        b"},
		"long lines of code break":    {"    0123456789012345678", "    0123456789012345\n    678"},
		"a quotation":                 {"> one two three four\n> five", "│ one two three four\n│ five"},
		"a rule":                      {"a\n\n---", "a\n\n────────────────────"},
		"a table has columns":         {"| a | long |\n|---|---|\n| bb | c |", "a   long\n────────\nbb  c"},
		"a table that is too wide":    {"| one two three | four five six |\n|---|---|\n| a | b |", "one two three | four\nfive six\na | b"},
		"HTML is text":                {"a <b>b</b>\n\n<p>\nc\n</p>", "a <b>b</b>\n\n<p>\nc\n</p>"},
		"what is not closed is shown": {"**a `b", "**a `b"},
		"escapes and entities":        {"\\*a\\* &amp; &lt;b&gt; `\\*&amp;`", "*a* & <b> `\\*&amp;`"},
		"control characters are safe": {"a&#27;[2Jb &#x9b;c", "a\\x1b[2Jb \\u009bc"},
		"also in addresses":           {"[a](<b&#27;[2J>)", "a (b\\x1b[2J)"},
		"nothing":                     {"", ""},
	} {
		if got := markdown(tt.source, 20, false); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if got, want := markdown("**a *b* c**", 20, true), "\x1b[1ma \x1b[3mb\x1b[23m c\x1b[22m"; got != want {
		t.Errorf("in color: %q, want %q", got, want)
	}
}

func TestOnlyBlocksThatAreCompleteAreCut(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                            "",
		"one":                         "",
		"one\n":                       "",
		"one\n\n":                     "", // "two" may be part of it
		"one\n\nt":                    "one\n\n",
		"one\n\ntwo\n\n\nthree":       "one\n\ntwo\n\n\n",
		"- one\n\n  two":              "",
		"- one\n\n  two\n\n- three":   "- one\n\n  two\n\n",
		"```\na\n\nb":                 "",
		"```\na\n\nb\n```\n\nc":       "```\na\n\nb\n```\n\n",
		"a\n\n~~~\n```\n\nb":          "a\n\n",
		"a\n\n  ```\n\nb\n\n```\n\nc": "a\n\n  ```\n\nb\n\n```\n\n",
	} {
		complete, rest := cut(source)
		if complete != want || complete+rest != source {
			t.Errorf("%q: %q and %q, want %q", source, complete, rest, want)
		}
	}
}

// FuzzMarkdownFits shows any text in any width, without control characters. A text that grows is cut in places that stay.
func FuzzMarkdownFits(f *testing.F) {
	sgr := regexp.MustCompile(`\x1b\[(?:[0-2]|3[1-6])m`) // which texts may have
	for _, seed := range []string{"# a\n\n- b\n  1. c\n\n> d\n\n```\ne\n```\n", "| a | b |\n|-|-|\n| c | d |", "<p>\n[a](b \"c\") ![d](e) <http://f>", "\xff\x00\x1b[31m"} {
		f.Add(seed, 40)
	}
	f.Fuzz(func(t *testing.T, source string, width int) {
		if width = 20 + max(width, -width)%100; len(source) > drawn {
			return
		}
		complete, rest := cut(source)
		if complete+rest != source {
			t.Fatalf("%q and %q", complete, rest)
		}
		if again, _ := cut(complete + "\n" + rest); !strings.HasPrefix(again, complete) {
			t.Fatalf("%q, and later %q", complete, again)
		}
		var safe strings.Builder // as a console gets it
		_, _ = io.WriteString(render.Terminal(&safe), source)
		for line := range strings.SplitSeq(markdown(safe.String(), width, false), "\n") {
			if text := sgr.ReplaceAllString(line, ""); render.Safe(text) != text {
				t.Fatalf("control characters: %q", line)
			}
		}
		if strings.ContainsAny(source, "<>") { // HTML is shown as it is
			return
		}
		for line := range strings.SplitSeq(markdown(source, width, true), "\n") {
			if got := ansi.StringWidth(line); got > width+60 { // what is deeply nested may be wider
				t.Fatalf("%d columns: %q", got, line)
			}
		}
	})
}

func TestWhatIsNestedDeeplyHasRoom(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("> ", 60) + "---", strings.Repeat("- ", 60) + "***", strings.Repeat("> ", 60) + "    code", strings.Repeat("1. ", 60) + "text"} {
		for _, width := range []int{-1, 0, 1, 20, 110} {
			if markdown(text, width, true) == "" {
				t.Errorf("nothing of %q", text)
			}
		}
	}
}
