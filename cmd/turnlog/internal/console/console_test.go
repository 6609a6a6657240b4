package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// terminal is a console at a terminal of a test.
type terminal struct {
	*Console

	t    *testing.T
	out  *clitest.Screen
	keys io.Writer
}

func open(t *testing.T, cfg Config) *terminal {
	t.Helper()
	in, keys := io.Pipe()
	out := clitest.NewScreen()
	if cfg.In = in; cfg.Out == nil {
		cfg.Out = out
	}
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = keys.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%q", out)
		}
	})
	opened := &terminal{c, t, out, keys}
	opened.ready()
	return opened
}

// ready makes the terminal wait for input, after it has what was written before: keys could overtake that.
func (c *terminal) ready() {
	c.Ready(true)
	c.settle()
}

func (c *terminal) press(keys string) {
	c.t.Helper()
	if _, err := io.WriteString(c.keys, keys); err != nil {
		c.t.Fatal(err)
	}
}

// begin writes a text whose last character is nowhere else in the output, and waits until the terminal shows it. A terminal may
// show a text in pieces.
func (c *terminal) begin(text string) {
	c.t.Helper()
	_, size := utf8.DecodeLastRuneInString(text)
	c.press(text)
	c.out.Await(c.t, text[len(text)-size:])
}

// line waits for the next line.
func (c *terminal) line() app.Line {
	c.t.Helper()
	select {
	case l := <-c.Lines:
		return l
	case <-time.After(clitest.Patience):
		c.t.Fatal("there is no line")
		return app.Line{}
	}
}

// expect sends what was written and checks it.
func (c *terminal) expect(want string) {
	c.t.Helper()
	c.press("\r")
	if got := c.line(); got.Text != want {
		c.t.Errorf("line %q, want %q", got.Text, want)
	}
}

// printed returns the lines of the scrollback, after the console was closed: what is printed ends with an erased line and
// a return.
func (c *terminal) printed() (lines []string) {
	c.t.Helper()
	if err := c.Close(); err != nil {
		c.t.Error(err)
	}
	for line := range strings.SplitSeq(c.out.String(), "\n") {
		if text, is := strings.CutSuffix(line, "\x1b[K\r"); is {
			lines = append(lines, strings.TrimSpace(ansi.Strip(text)))
		}
	}
	return lines
}

func TestWhatIsPrintedKeepsItsOrder(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	c.press("first")
	c.expect("first")
	c.Ready(false)
	_, _ = io.WriteString(c.Replies(), "A **reply**\n\nthat go")
	_, _ = io.WriteString(c.Replies(), "es on\n")
	_, _ = io.WriteString(c.Notes(), "a note\n")
	_, _ = io.WriteString(c.Questions(), "Run it? ")
	c.out.Await(t, "Run it?")
	c.press("y")
	c.expect("y")
	_, _ = io.WriteString(c.Notes(), "it ran\n")
	_, _ = io.WriteString(c.Replies(), "the end")
	got := strings.Join(c.printed(), "|")
	if want := "> first|A reply||that goes on|a note|Run it? y|it ran|the end"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	for range 2 { // these do not wait for the console
		_, _ = io.WriteString(c.Notes(), "late\n")
	}
}

// stalled is a terminal that takes nothing while it is locked.
type stalled struct {
	sync.Mutex
	*clitest.Screen
}

func (s *stalled) Write(b []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.Screen.Write(b)
}

func TestASlowTerminalHoldsNobodyAndLosesNothing(t *testing.T) {
	t.Parallel()
	out := &stalled{Screen: clitest.NewScreen()}
	c := open(t, Config{Out: out})
	c.out = out.Screen
	out.Lock()
	var want []string
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range 100 {
			for _, part := range []string{"reply ", strconv.Itoa(i), "\n\n"} {
				_, _ = io.WriteString(c.Replies(), part)
			}
			_, _ = fmt.Fprintf(c.Notes(), "note %d\n", i)
			c.Ready(i%2 == 0)
		}
	}()
	for i := range 100 {
		want = append(want, fmt.Sprintf("reply %d", i), fmt.Sprintf("note %d", i))
	}
	select {
	case <-written:
		out.Unlock()
	case <-time.After(clitest.Patience):
		out.Unlock()
		t.Fatal("who writes waits for the terminal")
	}
	got := slices.DeleteFunc(c.printed(), func(line string) bool { return line == "" })
	if !slices.Equal(got, want) {
		t.Errorf("printed %q", got)
	}
}

// TestATerminalIsResizedInTheMiddleOfAReply narrows it while a paragraph is written, and widens it again.
func TestATerminalIsResizedInTheMiddleOfAReply(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	c.Ready(false)
	resize := func(width int) {
		c.program.Send(tea.WindowSizeMsg{Width: width, Height: 30})
		c.program.Send(struct{}{}) // is taken after it
	}
	words := strings.Repeat("word ", 20)
	_, _ = io.WriteString(c.Replies(), words+"half a")
	c.out.Await(t, "half a")
	resize(30)
	_, _ = io.WriteString(c.Replies(), " sentence. "+words+"\n\n")
	c.out.Await(t, "sentence")
	_, _ = io.WriteString(c.Replies(), words+"half a")
	resize(60)
	_, _ = io.WriteString(c.Replies(), " sentence.")
	c.ready()
	c.press("next")
	c.expect("next")
	got := c.printed()
	if text := strings.Join(strings.Fields(strings.Join(got, " ")), " "); text != strings.TrimSpace(words+"half a sentence. "+words+words+"half a sentence. > next") {
		t.Errorf("printed %q", got)
	}
	first, second := longest(got[:slices.Index(got, "")]), longest(got[slices.Index(got, "")+1:])
	if first > 30 || second <= 30 || second > 60 {
		t.Errorf("lines of %d and %d characters: %q", first, second, got)
	}
}

func longest(lines []string) (n int) {
	for _, l := range lines {
		n = max(n, len(l))
	}
	return n
}

// TestWhatIsDrawnStaysBelowALongBlock prints more lines than the terminal has. Lines that are inserted above what is drawn must
// leave it on the screen, or it would be in the scrollback.
func TestWhatIsDrawnStaysBelowALongBlock(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	var want []string
	for i := range 2 * rows {
		want = append(want, strconv.Itoa(i))
	}
	text := strings.Join(want, "\n")
	_, _ = io.WriteString(c.Replies(), "```\n"+text+"\n```\n\n")
	_, _ = io.WriteString(c.Notes(), text+"\n")
	c.settle()
	c.press("\x1b[200~" + text + "\x1b[201~")
	c.expect(text)
	got := slices.DeleteFunc(c.printed(), func(line string) bool { return line == "" })
	got[len(got)-len(want)] = strings.TrimPrefix(got[len(got)-len(want)], prompt)
	if !slices.Equal(got, slices.Concat(want, want, want)) {
		t.Errorf("printed %q", got)
	}
	for _, m := range regexp.MustCompile(`\x1b\[(\d+)L`).FindAllStringSubmatch(c.out.String(), -1) {
		if n, _ := strconv.Atoi(m[1]); n > rows/2 {
			t.Errorf("%d lines at once", n)
		}
	}
}

func TestALongBlockIsShownAsItIs(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	_, _ = io.WriteString(c.Replies(), "**start**\n"+strings.Repeat("> ", maxBlock/2)+"\n**end**")
	c.Ready(true)
	if got := c.printed(); got[0] != "**start**" || got[len(got)-1] != "**end**" {
		t.Errorf("printed %.100q", got)
	}
}

func TestAQuestionMayEndWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	_, _ = io.WriteString(c.Questions(), "Run it? ")
	_, _ = io.WriteString(c.Notes(), "\ndecided elsewhere\n")
	c.ready()
	c.press("next")
	c.expect("next")
	if got, want := strings.Join(c.printed(), "|"), "Run it?|decided elsewhere|> next"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestLinesAreEdited(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Complete: func(text string) (found []string) {
		for _, name := range []string{"/fork", "/file", "/help"} {
			if strings.HasPrefix(name, text) {
				found = append(found, name)
			}
		}
		return found
	}})
	c.press("one\x1b\rtwo\nthree") // Alt-Enter, Ctrl-J
	c.expect("one\ntwo\nthree")
	c.press("\x1b[200~pasted\nlines\x1b[201~")
	c.expect("pasted\nlines")
	c.press("/h\t")
	c.expect("/help")
	c.press("/f\t")
	c.out.Await(t, "/fork")
	c.press("o\t")
	c.expect("/fork")
	c.press("nothing\t")
	c.expect("nothing")
	c.press("wrong\x03right") // Ctrl-C
	c.expect("right")
	c.press("\x1b[200~" + strings.Repeat("long ", 20_000) + "\x1b[201~")
	c.expect(strings.Repeat("long ", 20_000))
}

func TestALongPasteIsSentWhole(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history")
	c := open(t, Config{History: file})
	lines, words := strings.Repeat("line\n", 200_000), strings.Repeat("\tword", 200_000)
	c.press("first \x1b[200~" + lines + "\x1b[201~ second \x1b[200~" + strings.ReplaceAll(words, "\t", "\t\x07") + "\x1b[201~")
	c.out.Await(t, "[paste 2: 977 KiB]")
	c.expect("first " + lines + " second " + words)
	c.press("next")
	c.expect("next")
	c.press("\x1b[A\x1b[A") // what is too long to be edited is no history
	c.expect("next")
	if got, want := strings.Join(c.printed(), "|"), "> first [paste 1: 977 KiB] second [paste 2: 977 KiB]|> next|> next"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestWhatWasBegunDoesNotAnswerAQuestion(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	c.begin("no worries…")
	_, _ = io.WriteString(c.Questions(), "Run it? ")
	c.out.Await(t, "Run it?")
	c.press("y")
	c.expect("y")
	c.expect("no worries…")
	c.begin("later!")
	_, _ = io.WriteString(c.Questions(), "And it? ")
	c.out.Await(t, "And it?")
	_, _ = io.WriteString(c.Notes(), "\ndecided elsewhere\n")
	c.out.Await(t, "decided elsewhere")
	c.expect("later!")
}

// The terminal may be so slow that it never shows what was between two questions.
func TestWhatAnswersAQuestionDoesNotAnswerTheNext(t *testing.T) {
	t.Parallel()
	m, err := newModel(Config{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.editor.SetValue("begun")
	m.take(tail{note: "Run it? ", asks: 1})
	m.editor.SetValue("y")
	m.take(tail{note: "Run it? ", asks: 1, reply: "more"})
	if got := m.editor.Value(); got != "y" {
		t.Errorf("the same question: %q", got)
	}
	m.take(tail{note: "Run it? ", asks: 2})
	if got := m.editor.Value(); got != "" {
		t.Errorf("the next question: %q", got)
	}
	m.take(tail{})
	if got := m.editor.Value(); got != "begun" {
		t.Errorf("no question: %q", got)
	}
}

func TestALineSaysWhetherItAnswers(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	c.press("\r")
	if got := c.line(); got.Answer || got.Late {
		t.Errorf("without a question: %+v", got)
	}
	_, _ = io.WriteString(c.Questions(), "Run it? ")
	c.settle()
	c.press("\r")
	if got := c.line(); !got.Answer || got.Late {
		t.Errorf("with a question: %+v", got)
	}
	_, _ = io.WriteString(c.Questions(), "And it? ")
	c.settle()
	c.mu.Lock() // it is decided elsewhere, which the terminal does not show yet
	c.asking = false
	c.mu.Unlock()
	c.press("\r")
	if got := c.line(); got.Answer || !got.Late {
		t.Errorf("too late: %+v", got)
	}
}

// A table, for example, is written cell by cell.
func TestANoteThatHasNotEndedIsNoQuestion(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	c.begin("ah…")
	_, _ = io.WriteString(c.Notes(), "one cell, ")
	c.out.Await(t, "one cell")
	c.press("ad")
	c.expect("ah…ad")
	_, _ = io.WriteString(c.Notes(), "and another\n")
	if got, want := strings.Join(c.printed(), "|"), "> ah…ad|one cell, and another"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestLinesThatAreSentAtOnceKeepTheirOrder(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	var keys, want []string
	for i := range maxAhead {
		keys, want = append(keys, fmt.Sprintf("%d\r", i)), append(want, fmt.Sprintf("> %d", i))
	}
	c.press(strings.Join(keys, ""))
	for i := range maxAhead {
		if got := c.line(); got.Text != strconv.Itoa(i) {
			t.Fatalf("line %q, want %d", got.Text, i)
		}
	}
	if got := c.printed(); !slices.Equal(got, want) {
		t.Errorf("printed %q", got)
	}
}

func TestNamesOfFilesDoNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Complete: func(string) []string { return []string{"a\x1b]0;title\x07", "a\u202eb"} }})
	c.press("x\t")
	c.out.Await(t, `\u202eb`)
	if strings.Contains(c.out.String(), "\x1b]0;title") {
		t.Error("a name has set the title")
	}
}

func TestWhatWasSentIsRemembered(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history")
	const up, down = "\x1b[A", "\x1b[B"
	for i := range 2 {
		c := open(t, Config{History: file})
		if i == 1 {
			c.press(up + up)
			c.expect("draft")
		}
		for _, text := range []string{"one", "two\nlines", "three", "three"} {
			c.press(strings.ReplaceAll(text, "\n", "\x1b\r"))
			c.expect(text)
		}
		_, _ = io.WriteString(c.Questions(), "Run it? ")
		c.out.Await(t, "Run it?")
		c.press("y")
		c.expect("y") // is no input
		c.press("draft" + up + up + down + down)
		c.expect("draft")
		c.press(up + up)
		c.expect("three")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestALongHistoryIsCut(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history")
	var all strings.Builder
	all.WriteString(`"` + strings.Repeat("long ", 50_000) + "\"\n")
	for i := range 2*kept + 1 {
		fmt.Fprintf(&all, "\"%d\"\n", i)
	}
	if err := os.WriteFile(file, []byte(all.String()+`"cut of`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h, err := openHistory(file)
		if err != nil || len(h.all) != kept || h.all[kept-1] != strconv.Itoa(2*kept) {
			t.Errorf("%d inputs, %v", len(h.all), err)
		}
	}
	if _, err := openHistory(t.TempDir()); err == nil {
		t.Error("a directory is a history")
	}
}

func TestControlKeysInterruptAndLeave(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	c.press("\x03")
	if s := <-c.Interrupts; s != os.Interrupt {
		t.Errorf("signal %v", s)
	}
	c.Ready(false)
	c.out.Await(t, "Ctrl-C cancels")
	c.press("ahead\x03") // cancels what runs, and leaves what is written
	<-c.Interrupts
	c.expect("ahead")
	c.press("\x04")
	if got := c.line(); !errors.Is(got.Err, io.EOF) {
		t.Errorf("line %+v", got)
	}
}
