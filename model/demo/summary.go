package demo

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// summary is what the first lines of a file tell about it.
type summary struct {
	pkg       string // Go: the package's name
	pkgDoc    string // Go: the first sentence of the package's comment, if it is here
	generated bool
	title     string // Markdown: the first heading
	about     string // the first sentence of a comment or paragraph
	first     string // the first declaration
}

// summarize looks at the head of a file.
func summarize(name, head string) summary {
	switch {
	case strings.HasSuffix(name, ".go"):
		return summarizeGo(name, head)
	case strings.HasSuffix(name, ".md"), strings.HasSuffix(name, ".markdown"):
		return summarizeMarkdown(head)
	}
	return summarizeAny(name, head)
}

// summarizeGo parses what is there; the parser makes the best of a file that is
// cut off.
func summarizeGo(file, head string) summary {
	f, _ := parser.ParseFile(token.NewFileSet(), "", head, parser.ParseComments|parser.SkipObjectResolution)
	if f == nil || f.Name == nil || f.Name.Name == "" || f.Name.Name == "_" {
		return summary{}
	}
	s := summary{pkg: f.Name.Name, pkgDoc: sentenceOf(f.Doc), generated: ast.IsGenerated(f), about: fileComment(f)}
	best := 0
	if s.about != "" {
		best = fits
	}
	for _, d := range f.Decls {
		name, keyword, comment := declared(d)
		if s.first == "" && keyword != "" {
			s.first = keyword + " " + name
		}
		text := sentenceOf(comment)
		if score := telling(file, name, keyword); text != "" && score > best {
			best, s.about = score, text
		}
	}
	return s
}

// How much the comment of a declaration tells about its file.
const (
	methods    = 1 + iota
	unexported // types and functions
	exported
	fits // what the file is named for
)

func telling(file, name, keyword string) int {
	stem, _, _ := strings.Cut(path.Base(file), ".")
	switch {
	case keyword == "":
		return methods
	case strings.EqualFold(strings.ReplaceAll(stem, "_", ""), name):
		return fits
	case ast.IsExported(name):
		return exported
	}
	return unexported
}

// fileComment returns what stands before the first declaration and belongs to
// none: This file holds …
func fileComment(f *ast.File) string {
	for _, c := range f.Comments {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
				continue
			}
			if c.Pos() > d.Pos() || c == docOf(d) {
				return ""
			}
			break
		}
		if text := sentenceOf(c); c != f.Doc && strings.Count(text, " ") > 2 {
			return text
		}
	}
	return ""
}

func docOf(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

func sentenceOf(c *ast.CommentGroup) string {
	text := strings.TrimSpace(c.Text())
	if text == "" || boilerplate(text) {
		return ""
	}
	return ended(unlink(new(doc.Package).Synopsis(text)))
}

// declared names a type, function or method, with its keyword and comment;
// constants and variables say less about a file. A method has no keyword.
func declared(d ast.Decl) (name, keyword string, comment *ast.CommentGroup) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			return d.Name.Name, "", d.Doc
		}
		return d.Name.Name, "func", d.Doc
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok && t.Name != nil {
				if t.Doc != nil {
					return t.Name.Name, "type", t.Doc
				}
				return t.Name.Name, "type", d.Doc
			}
		}
	}
	return "", "", nil
}

// ended closes a sentence that was left open.
func ended(text string) string {
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".!?:)") {
		return text
	}
	return text + "."
}

// unlink takes the brackets off the doc links in a comment.
func unlink(text string) string {
	return regexp.MustCompile(`\[([A-Za-z][\w.*]*)\]`).ReplaceAllString(text, "$1")
}

// boilerplate reports whether a comment begins with what is in every file.
func boilerplate(text string) bool {
	lower := strings.ToLower(text)
	for _, start := range []string{"code generated", "go:build", "+build", "-*-", "eslint", "*-", "vim:", "coding:"} {
		if strings.HasPrefix(lower, start) {
			return true
		}
	}
	return licence(text)
}

// licence reports whether a comment is one; all of it is then.
func licence(text string) bool {
	lower := strings.ToLower(text)
	for _, start := range []string{"copyright", "(c)", "©", "spdx-", "licensed", "license", "all rights reserved", "permission is hereby"} {
		if strings.HasPrefix(lower, start) {
			return true
		}
	}
	return false
}

// summarizeMarkdown takes the title and the first paragraph.
func summarizeMarkdown(head string) summary {
	var s summary
	var paragraph []string
	fenced := false
	for line := range strings.Lines(head) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if underline(line) && len(paragraph) == 1 && s.title == "" {
			s.title, paragraph = paragraph[0], nil
			continue
		}
		text := !fenced && line != "" && !strings.HasPrefix(line, "```") && !strings.HasPrefix(line, "<") &&
			!strings.HasPrefix(line, "[!") && !strings.HasPrefix(line, "![") && !underline(line)
		switch {
		case strings.HasPrefix(line, "#") && !fenced:
			if len(paragraph) > 0 {
				s.about = ended(firstSentence(strings.Join(paragraph, " ")))
				return s
			}
			if s.title == "" {
				s.title = strings.TrimSpace(strings.TrimLeft(line, "#"))
			}
		case text:
			paragraph = append(paragraph, line)
		case len(paragraph) > 0:
			s.about = ended(firstSentence(strings.Join(paragraph, " ")))
			return s
		}
	}
	s.about = ended(firstSentence(strings.Join(paragraph, " ")))
	return s
}

// underline reports whether a line makes a heading of the one above it, or is a
// rule.
func underline(line string) bool {
	return len(line) > 2 && (strings.Trim(line, "=") == "" || strings.Trim(line, "-") == "")
}

// summarizeAny takes the first comment that is no licence, and the first line
// that declares something.
func summarizeAny(file, head string) summary {
	var s summary
	var comment []string
	inBlock, licensed := "", false
	declares := regexp.MustCompile(declaration)
	for line := range strings.Lines(head) {
		line = strings.TrimSpace(line)
		text, isComment, block := commentLine(line, inBlock)
		inBlock = block
		if isComment && text != "" && !strings.HasPrefix(line, "#!") {
			if !boilerplate(text) && text != path.Base(file) {
				comment = append(comment, text)
			} else if licence(text) {
				licensed = true
			}
			continue
		}
		if len(comment) > 0 && s.about == "" && !licensed {
			s.about = ended(firstSentence(strings.Join(comment, " ")))
		}
		licensed = licensed && isComment
		comment = nil
		if !isComment && s.first == "" && declares.MatchString(line) {
			s.first = strings.TrimRight(strings.TrimSuffix(line, "{"), " :")
		}
	}
	return s
}

// commentLine returns the text of a comment's line, and the end of the block
// comment that goes on after it, if one does.
func commentLine(line, inBlock string) (text string, isComment bool, block string) {
	if inBlock != "" {
		before, _, ends := strings.Cut(line, inBlock)
		if ends {
			return strings.Trim(before, " *"), true, ""
		}
		return strings.TrimLeft(line, " *"), true, inBlock
	}
	for start, end := range map[string]string{"/*": "*/", "<!--": "-->", `"""`: `"""`, "'''": "'''", "{-": "-}"} {
		if rest, ok := strings.CutPrefix(line, start); ok {
			if before, _, ends := strings.Cut(rest, end); ends {
				return strings.Trim(before, " *"), true, ""
			}
			return strings.TrimLeft(rest, " *"), true, end
		}
	}
	for _, start := range []string{"//", "#", "--", ";", "%"} {
		if rest, ok := strings.CutPrefix(line, start); ok && !strings.HasPrefix(line, "#include") && !strings.HasPrefix(line, "#define") {
			return strings.Trim(rest, "/#-;!% "), true, ""
		}
	}
	return "", false, ""
}

// declaration matches a line that declares something, in most languages.
const declaration = `^(export |default |pub |public |abstract |final |async )*` +
	`(def|class|func|function|fn|struct|enum|trait|impl|interface|type|module|mod|namespace|object|message|service) +\w+`

// firstSentence cuts text behind its first sentence.
func firstSentence(text string) string {
	for i, r := range text {
		if r != '.' && r != '!' && r != '?' {
			continue
		}
		rest := text[i+1:]
		if rest == "" || strings.HasPrefix(rest, " ") && !strings.HasSuffix(text[:i], "e.g") && !strings.HasSuffix(text[:i], "i.e") {
			return text[:i+1]
		}
	}
	return text
}

// say puts the summary in sentences, one a line. The comment of the package may
// have been found elsewhere.
func (s summary) say(file, pkgDoc string) []string {
	var lines []string
	add := func(line string) {
		if line != "" {
			lines = append(lines, line)
		}
	}
	if s.generated {
		add("Generated code.")
	}
	if s.pkgDoc != "" {
		pkgDoc = s.pkgDoc
	}
	switch {
	case strings.HasSuffix(file, "_test.go"):
		add(strings.TrimSpace("Tests of package " + strings.TrimSuffix(s.pkg, "_test") + ". " + pkgDoc))
	case pkgDoc != "":
		add(pkgDoc)
	case s.pkg != "":
		add("Part of package " + s.pkg + ".")
	}
	if s.title != "" {
		add("“" + s.title + "”")
	}
	if !strings.HasSuffix(file, "_test.go") || s.about != "" && ast.IsExported(s.about) {
		add(s.about) // not what a function that tests share does
	}
	if s.about == "" && s.pkg == "" && s.first != "" {
		add("It begins with " + s.first + ".")
	}
	return lines
}
