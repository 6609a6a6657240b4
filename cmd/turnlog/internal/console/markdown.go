package console

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/turnlog/turnlog/audit/render"
)

// attribute has the codes that begin and end a text attribute. Attributes can be nested, so an end code ends only its own.
type attribute string

const (
	bold   attribute = "1 22"
	dim    attribute = "2 22"
	italic attribute = "3 23"
	under  attribute = "4 24"
	struck attribute = "9 29"
	code   attribute = "36 39"
)

// page shows Markdown.
type page struct {
	source []byte
	color  bool
}

// narrow is the minimum width for wrapping text.
const narrow = 20

// markdown returns Markdown as lines of at most a width, without a final line break.
func markdown(source string, width int, color bool) string {
	p := page{[]byte(source), color}
	doc := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify)).Parser().Parse(text.NewReader(p.source))
	return strings.Join(p.blocks(doc, max(width, narrow), true), "\n")
}

func (p page) paint(a attribute, text string) string {
	if !p.color || text == "" {
		return text
	}
	begin, end, _ := strings.Cut(string(a), " ")
	return "\x1b[" + begin + "m" + text + "\x1b[" + end + "m"
}

// blocks returns the lines of the blocks in a node. Those of a loose node have blank lines between them.
func (p page) blocks(n ast.Node, width int, loose bool) (lines []string) {
	for b := n.FirstChild(); b != nil; b = b.NextSibling() {
		if loose && len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, p.block(b, width)...)
	}
	return lines
}

func (p page) block(n ast.Node, width int) []string {
	width = max(width, 1) // what is nested deeply has no room
	switch n := n.(type) {
	case *ast.Heading:
		return wrap(p.paint(bold, p.inline(n)), width)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return p.verbatim(n, width)
	case *ast.HTMLBlock:
		return strings.Split(strings.TrimRight(string(n.Lines().Value(p.source)), "\n"), "\n")
	case *ast.List:
		return p.list(n, width)
	case *ast.Blockquote:
		return indented(p.blocks(n, width-2, true), p.paint(dim, "│ "), p.paint(dim, "│ "))
	case *ast.ThematicBreak:
		return []string{p.paint(dim, strings.Repeat("─", min(width, 40)))}
	case *table.Table:
		return p.table(n, width)
	}
	return wrap(p.inline(n), width)
}

// verbatim returns the lines of code, broken only where the terminal would break them.
func (p page) verbatim(n ast.Node, width int) (lines []string) {
	for line := range strings.Lines(string(n.Lines().Value(p.source))) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
		for part := range strings.SplitSeq(ansi.Hardwrap(line, width-4, true), "\n") {
			lines = append(lines, "    "+p.paint(code, part))
		}
	}
	return lines
}

func (p page) list(n *ast.List, width int) (lines []string) {
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if !n.IsTight && len(lines) > 0 {
			lines = append(lines, "")
		}
		mark := "• "
		if n.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		hang := strings.Repeat(" ", ansi.StringWidth(mark))
		lines = append(lines, indented(p.blocks(item, width-len(hang), !n.IsTight), mark, hang)...)
	}
	return lines
}

// table returns the rows of a table in columns, or as they were written if they are too wide.
func (p page) table(n *table.Table, width int) (lines []string) {
	var rows [][]string
	var widths []int
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			i, text := len(cells), p.inline(cell)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			cells, widths[i] = append(cells, text), max(widths[i], ansi.StringWidth(text))
		}
		rows = append(rows, cells)
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for i, row := range rows {
		if total > width {
			lines = append(lines, wrap(strings.Join(row, " | "), width)...)
			continue
		}
		var b strings.Builder
		for j, cell := range row {
			b.WriteString(cell + strings.Repeat(" ", widths[j]-ansi.StringWidth(cell)+2))
		}
		line := strings.TrimRight(b.String(), " ")
		if i == 0 {
			line = p.paint(bold, line) + "\n" + p.paint(dim, strings.Repeat("─", total))
		}
		lines = append(lines, strings.Split(line, "\n")...)
	}
	return lines
}

// inline returns the text in a block, with breaks only where it has some.
func (p page) inline(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.WriteString(resolved(c.Segment.Value(p.source)))
			if c.HardLineBreak() {
				b.WriteByte('\n')
			} else if c.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(c.Value)
		case *ast.CodeSpan:
			b.WriteString(p.paint(code, p.span(c)))
		case *ast.Emphasis:
			as := italic
			if c.Level == 2 {
				as = bold
			}
			b.WriteString(p.paint(as, p.inline(c)))
		case *table.Strikethrough:
			b.WriteString(p.paint(struck, p.inline(c)))
		case *ast.AutoLink:
			b.WriteString(p.paint(under, string(c.Label(p.source))))
		case *ast.Link:
			b.WriteString(p.link(p.inline(c), resolved(c.Destination)))
		case *ast.Image:
			b.WriteString(p.link(p.inline(c), resolved(c.Destination)))
		case *ast.RawHTML:
			b.Write(c.Segments.Value(p.source))
		default:
			b.WriteString(p.inline(c))
		}
	}
	return b.String()
}

// span returns code unchanged, in backticks if nothing else shows that it is code.
func (p page) span(n *ast.CodeSpan) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, is := c.(*ast.Text); is {
			b.Write(t.Segment.Value(p.source))
		}
	}
	if p.color {
		return b.String()
	}
	return "`" + b.String() + "`"
}

// resolved returns text without the escapes and references of Markdown, which may be control characters.
func resolved(source []byte) string {
	return render.Safe(string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(source)))))
}

// link shows where a link leads, since its text may say something else.
func (p page) link(text, to string) string {
	if text == to {
		return p.paint(under, to)
	}
	return text + p.paint(dim, " ("+to+")")
}

func wrap(text string, width int) []string {
	return strings.Split(ansi.Wrap(text, width, ""), "\n")
}

func indented(lines []string, first, rest string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = strings.TrimRight(rest+line, " ")
		if i == 0 {
			out[i] = first + line
		}
	}
	return out
}

// cut splits growing Markdown after its last complete block, which later text cannot change.
func cut(source string) (complete, rest string) {
	fence, blank, at, offset := "", false, 0, 0
	for line := range strings.Lines(source) {
		start := strings.TrimLeft(line, " ")
		switch {
		case fence != "":
			if strings.HasPrefix(start, fence) {
				fence = ""
			}
		case strings.TrimSpace(line) == "":
			blank = true
		default:
			if blank && start == line && line[0] != '\t' { // what is indented may continue a list
				at = offset
			}
			blank = false
			if strings.HasPrefix(start, "```") || strings.HasPrefix(start, "~~~") {
				fence = start[:3]
			}
		}
		offset += len(line)
	}
	return source[:at], source[at:]
}
