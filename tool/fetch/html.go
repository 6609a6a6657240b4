package fetch

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// textOf returns the text of a page without markup: headings with #, list items with -, and links
// followed by their address. It reads tokens and builds no tree, so deeply nested pages are no
// problem.
func textOf(page []byte) string {
	var p prose
	z := html.NewTokenizer(bytes.NewReader(page))
	z.SetMaxBuf(len(page) + 1)
	for {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				p.hidden = 0
				p.say("[… the rest of the page cannot be read …]")
			}
			return p.text()
		case html.TextToken:
			if p.hidden == 0 {
				p.words(string(z.Text()))
			}
		case html.StartTagToken:
			p.start(z.Token())
		case html.SelfClosingTagToken:
			if t := z.Token(); !silent(t.DataAtom) {
				p.start(t)
			}
		case html.EndTagToken:
			p.end(z.Token().DataAtom)
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

// prose collects text in paragraphs.
type prose struct {
	b      strings.Builder
	breaks int  // newlines due before the next word
	space  bool // a space is due
	hidden int  // open elements with invisible text
	pre    int  // open elements with preformatted text
	links  []string
}

// silent reports whether an element's text is invisible, as in scripts.
func silent(a atom.Atom) bool {
	switch a { //nolint:exhaustive // a list
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Math, atom.Iframe, atom.Object:
		return true
	}
	return false
}

func (p *prose) start(t html.Token) {
	p.block(gap(t.DataAtom))
	switch t.DataAtom { //nolint:exhaustive // the others are plain text
	case atom.Title, atom.H1:
		p.say("# ")
	case atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		p.say(strings.Repeat("#", int(t.Data[1]-'0')) + " ")
	case atom.Li:
		p.say("- ")
	case atom.Br:
		p.breaks++
	case atom.Td, atom.Th:
		p.space = true
	case atom.Pre:
		p.pre++
	case atom.A:
		p.links = append(p.links, attribute(t, "href"))
	case atom.Img:
		if alt := attribute(t, "alt"); alt != "" {
			p.words("[" + alt + "]")
		}
	}
	if silent(t.DataAtom) {
		p.hidden++
	}
}

func (p *prose) end(a atom.Atom) {
	switch n := len(p.links); {
	case silent(a):
		p.hidden = max(0, p.hidden-1)
	case a == atom.Pre:
		p.pre = max(0, p.pre-1)
	case a == atom.A && n > 0:
		if link := p.links[n-1]; leads(link) {
			p.space = true
			p.say("(" + link + ")")
		}
		p.links = p.links[:n-1]
	}
	if a != atom.Li {
		p.block(gap(a))
	}
}

// maxLink is the longest address that is shown.
const maxLink = 300

func leads(link string) bool {
	scheme, _, ok := strings.Cut(link, ":")
	return link != "" && len(link) <= maxLink && !strings.HasPrefix(link, "#") &&
		(!ok || scheme == "http" || scheme == "https" || strings.Contains(scheme, "/"))
}

// gap is the number of newlines around an element.
func gap(a atom.Atom) int {
	switch a { //nolint:exhaustive // the others are inline
	case atom.P, atom.Blockquote, atom.Table, atom.Ul, atom.Ol, atom.Dl, atom.Hr, atom.Article, atom.Section, atom.Figure,
		atom.Pre, atom.Title, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return 2
	case atom.Div, atom.Tr, atom.Dt, atom.Dd, atom.Header, atom.Footer, atom.Nav, atom.Main, atom.Aside, atom.Form, atom.Option, atom.Li:
		return 1
	}
	return 0
}

// block makes sure that at least this many newlines come before the next text.
func (p *prose) block(breaks int) {
	if breaks > 0 {
		p.breaks, p.space = max(p.breaks, breaks), false
	}
}

// words adds text of the page and collapses its white space.
func (p *prose) words(text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if p.pre > 0 {
		p.say(text)
		return
	}
	fields := strings.Fields(text)
	if len(fields) == 0 {
		p.space = p.space || text != ""
		return
	}
	p.space = p.space || strings.TrimLeft(text, " \t\r\n\f") != text
	p.say(strings.Join(fields, " "))
	p.space = strings.TrimRight(text, " \t\r\n\f") != text
}

// say adds text, unless an open element hides it.
func (p *prose) say(text string) {
	switch {
	case p.hidden > 0:
		return
	case p.b.Len() == 0:
	case p.breaks > 0:
		p.b.WriteString(strings.Repeat("\n", min(p.breaks, 2)))
	case p.space && !strings.HasSuffix(p.b.String(), " "):
		p.b.WriteByte(' ')
	}
	p.breaks, p.space = 0, false
	p.b.WriteString(text)
}

func (p *prose) text() string { return strings.TrimSpace(p.b.String()) + "\n" }

func attribute(t html.Token, key string) string {
	for _, a := range t.Attr {
		if a.Key == key {
			return strings.TrimSpace(a.Val)
		}
	}
	return ""
}
