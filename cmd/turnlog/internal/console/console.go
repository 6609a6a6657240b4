// Package console is a terminal for conversations: what a command prints stays in the scrollback, and only what is below it
// is drawn again, a reply that grows and the line that the user writes.
//
// The one idea: a command uses a console as it uses any terminal. It writes replies to one stream and notes to another, and
// reads lines, so it need not know whether there is a console. The console knows nothing about sessions.
//
// Writers and the reader of lines may be any goroutines; the console keeps the order in which they wrote.
package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
)

// Config says where a console is. All fields but In and Out are optional.
type Config struct {
	In      io.Reader // as a terminal sends it
	Out     io.Writer
	Color   bool
	History string // the file that keeps what was typed; "": it is forgotten

	// Complete returns what can be the last word of a text. All of it begins with that word.
	Complete func(text string) []string
}

// Console is an open console. The terminal is in raw mode until Close.
type Console struct {
	Lines      <-chan app.Line  // what the user sends
	Interrupts <-chan os.Signal // Ctrl-C

	program *tea.Program
	ended   chan error
	once    sync.Once
	err     error

	mu      sync.Mutex // held while something is printed, so that all has its order
	color   bool
	width   int    // last known
	pending string // of a reply, in Markdown
	partial string // of a note
	asking  bool   // partial is a question
}

// maxAhead is how many lines a user can send before they are read.
const maxAhead = 100

// columns and rows are the size of a terminal that has said nothing about it.
const columns, rows = 80, 24

// frames per second are enough to read along, and few for a slow connection.
const frames = 20

// Open takes over a terminal.
func Open(ctx context.Context, cfg Config) (*Console, error) {
	lines, interrupts := make(chan app.Line, maxAhead), make(chan os.Signal, 4)
	c := &Console{Lines: lines, Interrupts: interrupts, ended: make(chan error, 1), color: cfg.Color, width: columns}
	m, err := newModel(cfg, lines, interrupts)
	if err != nil {
		return nil, err
	}
	c.mu.Lock() // until the first frame is drawn
	m.resized = func(width int) {
		go c.resize(width) // it may wait for a writer, who waits for the model
	}
	m.answered = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.partial, c.asking = "", false
	}
	first := &outlet{to: cfg.Out, begun: make(chan struct{})}
	out, options := tea.WithOutput(first), []tea.ProgramOption{tea.WithWindowSize(columns, rows)}
	if f, is := cfg.Out.(*os.File); is { // which has a size
		out, options = tea.WithOutput(file{f, first}), nil
	}
	options = append(options, tea.WithContext(context.WithoutCancel(ctx)), tea.WithInput(cfg.In), out, tea.WithoutSignalHandler(), tea.WithFPS(frames))
	c.program = tea.NewProgram(m, options...)
	go func() {
		_, err := c.program.Run()
		m.queue(app.Line{Err: io.EOF}) // there will be no more
		c.ended <- err
	}()
	select {
	case <-first.begun: // until then, the program does not know where lines above it are
		c.mu.Unlock()
	case err := <-c.ended:
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	c.Ready(false)
	return c, nil
}

// outlet tells when the first frame was drawn.
type outlet struct {
	to    io.Writer
	once  sync.Once
	begun chan struct{}
}

func (o *outlet) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if bytes.Contains(p, []byte(greeting)) {
		o.once.Do(func() { close(o.begun) })
	}
	return n, err
}

// file is an outlet to a file that is a terminal.
type file struct {
	*os.File

	*outlet
}

func (f file) Write(p []byte) (int, error) { return f.outlet.Write(p) }

// Close prints what is left and returns the terminal as it was.
func (c *Console) Close() error {
	c.once.Do(func() {
		c.Ready(false)
		c.program.Send(leave{})
		if err := <-c.ended; err != nil {
			c.err = fmt.Errorf("the terminal: %w", err)
		}
	})
	return c.err
}

// Ready says whether a line is expected. While it is not, the console shows that something is at work.
func (c *Console) Ready(ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	c.program.Send(readiness(ready))
}

func (c *Console) resize(width int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.width = width
	c.tail()
}

// Replies returns the writer for replies, which are Markdown.
func (c *Console) Replies() io.Writer { return writer(c.reply) }

// Notes returns the writer for lines of any kind.
func (c *Console) Notes() io.Writer { return writer(func(text string) { c.note(text, false) }) }

// Questions returns the writer for questions. The next line that the user sends is the answer, unless a note begins a new line
// before.
func (c *Console) Questions() io.Writer { return writer(func(text string) { c.note(text, true) }) }

type writer func(text string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func (c *Console) reply(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partial != "" {
		c.flush()
	}
	begun := strings.HasSuffix(c.pending, "\n")
	c.pending += text
	if begun || strings.Contains(text, "\n") { // else no block has ended
		var complete string
		if complete, c.pending = cut(c.pending); complete != "" {
			c.print(c.rendered(complete) + "\n")
		}
	}
	c.tail()
}

func (c *Console) note(text string, asks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != "" {
		c.flush()
	}
	at := strings.LastIndexByte(text, '\n') + 1
	if at > 0 {
		c.print(strings.Join(wrap(strings.TrimSuffix(c.partial+text[:at], "\n"), c.columns()), "\n"))
		c.partial, c.asking = "", false
	}
	c.partial += text[at:]
	c.asking = c.asking || asks
	c.tail()
}

// print adds lines to the scrollback. They are lost once the console is closed.
func (c *Console) print(lines string) { c.program.Send(tea.Println(lines)()) }

// flush prints what has not ended.
func (c *Console) flush() {
	if text := c.partial + c.rendered(c.pending); text != "" {
		c.print(text)
	}
	c.partial, c.pending, c.asking = "", "", false
	c.tail()
}

// drawn is how much of a reply is rendered again with each piece: about a page.
const drawn = 2 << 10

// tail shows what has not ended, or its end.
func (c *Console) tail() {
	reply := c.pending
	if len(reply) > drawn {
		reply = strings.ToValidUTF8(reply[len(reply)-drawn:], "")
	}
	c.program.Send(tail{c.rendered(reply), c.partial, c.asking})
}

// maxBlock is the longest text that is parsed, since some take time that grows with the square of their length. Longer
// ones are shown as they are.
const maxBlock = 16 << 10

func (c *Console) rendered(reply string) string {
	switch {
	case strings.TrimSpace(reply) == "":
		return ""
	case len(reply) > maxBlock:
		return strings.TrimRight(reply, "\n")
	}
	return markdown(reply, c.columns(), c.color)
}

// widest is how long lines of text may be and still be read with ease.
const widest = 110

func (c *Console) columns() int { return min(c.width, widest) }
