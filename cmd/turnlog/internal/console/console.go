// Package console is a terminal for conversations. What a command prints stays in the scrollback. Only the part below it is
// redrawn: a growing reply and the line that the user types.
//
// A command uses a console like any terminal. It writes replies to one stream and notes to another, and reads lines, so it need
// not know whether there is a console. The console knows nothing about sessions.
//
// Writers and the reader of lines may be any goroutines; the console keeps the order in which they wrote.
package console

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
)

// Config says where a console is. All fields but In and Out are optional.
type Config struct {
	In      io.Reader // input from a terminal
	Out     io.Writer
	Color   bool
	History string // the file that keeps what was typed; "": it is forgotten

	// Complete returns the possible completions of the last word of a text. Each begins with that word.
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

	mu      sync.Mutex
	color   bool
	width   int    // last known
	room    int    // how many lines can be printed at once
	pending string // the unfinished part of a reply, in Markdown
	partial string // the unfinished line of a note
	asked   int    // questions so far
	asking  bool   // partial is the last one
	ready   bool
	lines   []string   // for the scrollback, which were not sent
	fresh   bool       // there is something to send
	sending bool       // it is being sent
	closed  bool       // nothing will be sent
	changed *sync.Cond // one of these three has changed
}

// maxAhead is how many lines a user can send before they are read.
const maxAhead = 100

// columns and rows are the assumed size of a terminal that does not report one.
const columns, rows = 80, 24

// frames is the number of frames per second: enough to read along, and few enough for a slow connection.
const frames = 20

// Open takes over a terminal.
func Open(ctx context.Context, cfg Config) (*Console, error) {
	lines, interrupts := make(chan app.Line, maxAhead), make(chan os.Signal, 4)
	c := &Console{Lines: lines, Interrupts: interrupts, ended: make(chan error, 1), color: cfg.Color, width: columns, room: 1}
	c.changed = sync.NewCond(&c.mu)
	m, err := newModel(cfg, lines, interrupts)
	if err != nil {
		return nil, err
	}
	m.resized = func(width, room int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.width, c.room = width, room
		c.show()
	}
	m.answered = func(question int) (open bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if open = c.asking && c.asked == question; open {
			c.partial, c.asking = "", false
		}
		return open
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
	case err := <-c.ended:
		return nil, fmt.Errorf("the terminal: %w", err)
	}
	go c.send()
	c.Ready(false)
	return c, nil
}

// send passes written text to the program. A terminal may be slow or blocked for a while: only this goroutine waits for
// it, and text that arrives meanwhile is shown together.
func (c *Console) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for was := false; ; {
		for !c.fresh && !c.closed {
			c.changed.Wait()
		}
		if !c.fresh {
			return
		}
		lines, reply, width, room, ready := c.lines, c.pending, c.columns(), c.room, c.ready
		next := tail{note: c.partial}
		if c.asking {
			next.asks = c.asked
		}
		c.lines, c.fresh, c.sending = nil, false, true
		c.mu.Unlock()
		for _, print := range printing(lines, room) {
			c.program.Send(print())
		}
		if len(reply) > drawn {
			reply = strings.ToValidUTF8(reply[len(reply)-drawn:], "")
		}
		next.reply = c.rendered(reply, width)
		c.program.Send(next)
		if was != ready {
			c.program.Send(readiness(ready))
		}
		was = ready
		c.mu.Lock()
		c.sending = false
		c.changed.Broadcast()
	}
}

// printing returns commands that print lines, only so many at once that the part drawn below them stays on the screen. Otherwise
// that part would end up in the scrollback.
func printing(lines []string, room int) (all []tea.Cmd) {
	if len(lines) == 0 {
		return nil
	}
	for part := range slices.Chunk(strings.Split(strings.Join(lines, "\n"), "\n"), room) {
		all = append(all, tea.Println(cmp.Or(strings.Join(part, "\n"), " "))) // an empty text would print no line
	}
	return all
}

// show makes send pass on the written text. The caller holds mu.
func (c *Console) show() {
	c.fresh = true
	c.changed.Broadcast()
}

// settle waits until everything was sent.
func (c *Console) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for (c.fresh || c.sending) && !c.closed {
		c.changed.Wait()
	}
}

// outlet signals when the first frame was drawn.
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

// Close prints what is left and restores the terminal.
func (c *Console) Close() error {
	c.once.Do(func() {
		c.Ready(false)
		c.settle()
		c.program.Send(leave{})
		if err := <-c.ended; err != nil {
			c.err = fmt.Errorf("the terminal: %w", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		c.changed.Broadcast()
	})
	return c.err
}

// Ready says whether a line is expected. While none is, the console shows that work is in progress.
func (c *Console) Ready(ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	c.ready = ready
	c.show()
}

// Replies returns the writer for replies, which are Markdown.
func (c *Console) Replies() io.Writer { return writer(c.reply) }

// Notes returns the writer for lines of any kind.
func (c *Console) Notes() io.Writer { return writer(func(text string) { c.note(text, false) }) }

// Questions returns the writer for questions. The next line that the user sends while one is shown is its answer. A note that
// begins a new line closes it.
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
	if begun || strings.Contains(text, "\n") { // otherwise no block has ended
		var complete string
		if complete, c.pending = cut(c.pending); complete != "" {
			c.print(c.rendered(complete, c.columns()) + "\n")
		}
	}
	c.show()
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
	if asks && !c.asking {
		c.asked, c.asking = c.asked+1, true
	}
	c.show()
}

// print adds lines to the scrollback. They are lost once the console is closed.
func (c *Console) print(lines string) {
	if lines != "" {
		c.lines = append(c.lines, lines)
	}
}

// flush prints the unfinished reply and note.
func (c *Console) flush() {
	if text := c.partial + c.rendered(c.pending, c.columns()); text != "" {
		c.print(text)
	}
	c.partial, c.pending, c.asking = "", "", false
	c.show()
}

// drawn is how many bytes of a reply are rendered again with each piece: about a page.
const drawn = 2 << 10

// maxBlock is the longest text that is parsed, since the time for some texts grows with the square of their length. Longer
// texts are shown unformatted.
const maxBlock = 16 << 10

func (c *Console) rendered(reply string, width int) string {
	switch {
	case strings.TrimSpace(reply) == "":
		return ""
	case len(reply) > maxBlock:
		return ansi.Hardwrap(strings.TrimRight(reply, "\n"), width, true)
	}
	return markdown(reply, width, c.color)
}

// widest is the maximum length of lines that are easy to read.
const widest = 110

func (c *Console) columns() int { return min(c.width, widest) }
