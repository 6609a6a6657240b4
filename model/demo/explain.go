package demo

import (
	"cmp"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// explained says what a file does, as far as the part of it in r shows.
func explained(file string, r content.ToolResult) string {
	if r.IsError {
		return failures([]content.ToolResult{r})
	}
	_, head, _ := strings.Cut(r.Text(), "\n") // the first line says which lines follow
	about, names := prose(head), []string(nil)
	if path.Ext(file) == ".go" {
		about, names = explainGo(file, head)
	}
	about = cmp.Or(about, "Its first lines do not say what it is for.")
	if len(names) > 8 {
		names = append(names[:8], "…")
	}
	if len(names) > 0 {
		about += "\nIt declares " + strings.Join(names, ", ") + "."
	}
	return about + "\n"
}

// explainGo returns the first sentence of the package comment, or else of the
// declaration that the file is named for, or else of the first one; and the names
// of functions and types. The parser copes with a file that is cut off.
func explainGo(file, head string) (about string, names []string) {
	f, _ := parser.ParseFile(token.NewFileSet(), "", head, parser.ParseComments|parser.SkipObjectResolution)
	if f == nil || f.Name == nil {
		return "", nil
	}
	stem := strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".go"), "_", "")
	for _, d := range f.Decls {
		name, comment := declared(d)
		if name == "" {
			continue
		}
		names = append(names, name)
		if text := sentence(comment); text != "" && (about == "" || strings.EqualFold(name, stem)) {
			about = text
		}
	}
	return cmp.Or(sentence(f.Doc), about, "Part of package "+f.Name.Name+"."), names
}

// declared returns the name and comment of a function or type; methods, constants
// and variables say less about a file.
func declared(d ast.Decl) (string, *ast.CommentGroup) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name != nil {
			return d.Name.Name, d.Doc
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok && t.Name != nil {
				return t.Name.Name, d.Doc
			}
		}
	}
	return "", nil
}

// sentence returns the first sentence of a comment, without the brackets of links.
func sentence(c *ast.CommentGroup) string {
	text := new(doc.Package).Synopsis(c.Text())
	return regexp.MustCompile(`\[([\w.*]+)\]`).ReplaceAllString(text, "$1")
}

// prose returns the first line that reads like a sentence: a comment or a line of
// text with at least three words that is not a license or a note to tools.
func prose(head string) string {
	skip := regexp.MustCompile(`(?i)^(#!|copyright|\(c\)|spdx|licen[sc]e|code generated|[!<\[]|-\*-)`)
	for line := range strings.Lines(head) {
		text := strings.TrimSpace(line)
		if skip.MatchString(text) {
			continue
		}
		text = strings.Trim(text, "/*#;-\"' \t")
		if len(strings.Fields(text)) >= 3 && !skip.MatchString(text) {
			return text
		}
	}
	return ""
}
