package console

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
)

// prompt is before the line that the user writes.
const prompt = "> "

// greeting is in the first frame, so that the console recognizes that frame.
const greeting = "chat"

// Messages of a console to its model.
type (
	tail struct {
		reply, note string // the unfinished reply and note
		asks        int    // the note is the question with this number; 0: not a question
	}
	readiness bool
	leave     struct{}
	second    struct{}
	passed    struct{} // the first line of sent
)

// model is what is drawn below the scrollback. The program's goroutine owns it.
type model struct {
	cfg        Config
	lines      chan<- app.Line
	interrupts chan<- os.Signal
	resized    func(width, room int)
	answered   func(question int) (open bool) // it is no longer open; it may have been closed before

	editor  textarea.Model
	pasted  []string  // long texts, for which the editor has marks
	sent    []tea.Cmd // print the lines that were sent, and pass them on: one after another, which keeps their order
	draft   string    // text that was typed before a question was shown: it is not the answer
	history history
	found   []string // what can complete the last word
	tail    tail
	ready   bool
	since   time.Time // when the console stopped being ready
	width   int
	height  int
	room    int // lines that can be printed at once
	left    bool
}

func newModel(cfg Config, lines chan<- app.Line, interrupts chan<- os.Signal) (*model, error) {
	e := textarea.New()
	e.ShowLineNumbers, e.CharLimit, e.MaxHeight, e.DynamicHeight, e.MaxContentHeight = false, 0, 10, true, 1<<20
	e.SetPromptFunc(len(prompt), func(p textarea.PromptInfo) string {
		if p.LineNumber == 0 {
			return prompt
		}
		return strings.Repeat(" ", len(prompt))
	})
	e.SetStyles(textarea.Styles{})
	e.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "shift+enter", "ctrl+j"))
	e.SetVirtualCursor(false)
	e.Focus()
	h, err := openHistory(cfg.History)
	m := &model{cfg: cfg, lines: lines, interrupts: interrupts, editor: e, history: h, tail: tail{note: greeting}, since: time.Now(), width: columns, height: rows}
	m.editor.SetWidth(columns)
	return m, err
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	_, resized := msg.(tea.WindowSizeMsg)
	if room := max(m.height-m.above()-m.editor.Height()-1, 1); resized || room != m.room {
		m.room = room
		m.resized(m.width, room)
	}
	return m, cmd
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.editor.SetWidth(msg.Width)
	case tail:
		m.take(msg)
	case tea.PasteMsg:
		if len(msg.Content) > longPaste {
			m.paste(msg.Content)
			return nil
		}
		return m.edit(msg)
	case readiness:
		if m.ready = bool(msg); !m.ready {
			m.since = time.Now()
			return tick()
		}
	case second:
		if !m.ready && !m.left {
			return tick()
		}
	case passed:
		if m.sent = m.sent[1:]; len(m.sent) > 0 {
			return m.sent[0]
		}
	case leave:
		m.left = true
		return tea.Quit
	case tea.KeyPressMsg:
		return m.press(msg)
	default:
		return m.edit(msg)
	}
	return nil
}

// take shows a tail. A question sets aside the text that the user is typing.
func (m *model) take(t tail) {
	switch text := m.editor.Value(); {
	case t.asks > 0 && t.asks != m.tail.asks && text != "":
		m.draft = cmp.Or(m.draft, text)
		m.editor.Reset()
	case t.asks == 0 && m.draft != "" && text == "":
		m.recall(m.draft, true)
		m.draft = ""
	}
	m.tail = t
}

// longPaste is the maximum length of a text that is pasted into the editor. The editor is slow for many lines, and accepts only
// 10,000.
const longPaste = 4 << 10

// paste keeps a long text, and puts a mark for it into the editor.
func (m *model) paste(text string) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, ""))
	m.pasted = append(m.pasted, strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text))
	m.found = nil
	m.editor.InsertString(m.mark(len(m.pasted) - 1))
}

// mark returns the mark for a long text.
func (m *model) mark(i int) string {
	return fmt.Sprintf("[paste %d: %s]", i+1, humanize.IBytes(uint64(len(m.pasted[i]))))
}

// whole returns a text with its marks replaced by the long texts.
func (m *model) whole(text string) string {
	var pairs []string
	for i, p := range m.pasted {
		pairs = append(pairs, m.mark(i), p)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// tick updates the elapsed time every second.
func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return second{} }) }

// press handles a key.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	text := m.editor.Value()
	switch k.String() {
	case "enter":
		return m.send(text)
	case "tab":
		m.complete(text)
		return nil
	case "ctrl+c":
		if text != "" && m.ready {
			m.editor.Reset()
			m.pasted = nil
			m.history.rewind()
		} else {
			m.interrupt()
		}
		return nil
	case "ctrl+d":
		if text != "" {
			break
		}
		m.queue(app.Line{Err: io.EOF})
		return nil
	case "ctrl+z":
		return tea.Suspend
	case "up":
		if m.editor.Line() == 0 {
			m.recall(m.history.earlier(text))
			return nil
		}
	case "down":
		if m.editor.Line() == m.editor.LineCount()-1 {
			m.recall(m.history.later())
			return nil
		}
	}
	return m.edit(k)
}

func (m *model) edit(msg tea.Msg) (cmd tea.Cmd) {
	m.found = nil
	m.editor, cmd = m.editor.Update(msg)
	return cmd
}

// send passes on the typed text, after printing it to the scrollback.
func (m *model) send(text string) tea.Cmd {
	m.found = nil
	m.editor.Reset()
	shown := strings.Join(indented(wrap(text, max(m.width-len(prompt), narrow)), prompt, strings.Repeat(" ", len(prompt))), "\n")
	question := m.tail.asks
	whole := m.whole(text)
	m.pasted = nil
	if question > 0 { // the line of the question
		shown = m.tail.note + text
		m.take(tail{reply: m.tail.reply})
	} else {
		m.history.add(whole)
	}
	m.sent = append(m.sent, tea.Sequence(append(printing([]string{shown}, m.room), func() tea.Msg {
		line := app.Line{Text: whole}
		if question > 0 {
			line.Answer = m.answered(question)
			line.Late = !line.Answer
		}
		m.queue(line)
		return passed{}
	})...))
	if len(m.sent) > 1 {
		return nil
	}
	return m.sent[0]
}

// queue passes on a line. It drops the line if the queue is full: then the reader has stopped.
func (m *model) queue(line app.Line) {
	select {
	case m.lines <- line:
	default:
	}
}

func (m *model) interrupt() {
	select {
	case m.interrupts <- os.Interrupt:
	default:
	}
}

func (m *model) recall(text string, ok bool) {
	if ok {
		m.found = nil
		m.editor.SetValue(text)
		m.editor.MoveToEnd()
	}
}

// complete adds the common prefix of all completions of the last word, and shows them if there are several.
func (m *model) complete(text string) {
	if m.cfg.Complete == nil || text == "" {
		return
	}
	m.found = m.cfg.Complete(text)
	if len(m.found) == 0 {
		return
	}
	word := text[strings.LastIndexAny(text, " \n")+1:]
	common := slices.Min(m.found)
	for last := slices.Max(m.found); !strings.HasPrefix(last, common); {
		common = common[:len(common)-1]
	}
	if len(common) > len(word) {
		m.editor.SetValue(text[:len(text)-len(word)] + common)
		m.editor.MoveToEnd()
	}
	if len(m.found) == 1 {
		m.found = nil
	}
}

// shown is how many completions are shown.
const shown = 8

// above returns how many lines are drawn above the editor.
func (m *model) above() int { return max(m.height/2, 2) }

// View implements tea.Model.
func (m *model) View() tea.View {
	if m.left {
		return tea.NewView("")
	}
	p := page{color: m.cfg.Color}
	var above []string
	if m.tail.reply != "" {
		above = strings.Split(m.tail.reply, "\n")
		above = above[max(0, len(above)-m.above()+1):] // one more line follows
	}
	if m.tail.note != "" {
		above = append(above, wrap(m.tail.note, max(m.width, narrow))...)
	} else if !m.ready {
		above = append(above, p.paint(dim, fmt.Sprintf("working %v, Ctrl-C cancels", time.Since(m.since).Truncate(time.Second))))
	}
	below := ""
	if len(m.found) > 0 {
		list := render.Safe(strings.Join(m.found[:min(shown, len(m.found))], "  ")) // names of files may have anything
		if more := len(m.found) - shown; more > 0 {
			list += fmt.Sprintf("  and %d more", more)
		}
		below = "\n" + p.paint(dim, ansi.Truncate(list, max(m.width, narrow), "…"))
	}
	v := tea.NewView(strings.Join(append(above, m.editor.View()), "\n") + below)
	if cursor := m.editor.Cursor(); cursor != nil {
		cursor.Y += len(above)
		v.Cursor = cursor
	}
	return v
}
