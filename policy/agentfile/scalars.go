package agentfile

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/jsonschema-go/jsonschema"
)

// scalarFits reports whether a value that holds no others is what the schema wants.
func (r *reader) scalarFits(node ast.Node, s *jsonschema.Schema, path string) bool {
	kind := kindOf(s)
	switch n := node.(type) {
	case *ast.NullNode:
		return r.kept || r.refuse(node, path, "has no value: give one, or leave the key out")
	case *ast.IntegerNode:
		if kind == "integer" || kind == "number" {
			return r.wholeFits(n, s, path)
		}
	case *ast.FloatNode:
		if kind == "number" {
			return r.inBounds(node, n.Value, s, path)
		}
	case *ast.BoolNode:
		if kind == "boolean" {
			return true
		}
	case *ast.StringNode, *ast.LiteralNode:
		if kind == "string" {
			empty := node.GetToken().Value == "" && (s.Pattern != "" || len(s.Enum) > 0 || s.MinLength != nil)
			return !empty || r.refuse(node, path, "is empty: give a value, or leave the key out")
		}
		if digits := node.GetToken().Value; kind == "integer" && regexp.MustCompile(`^[-+]?[0-9]+$`).MatchString(digits) && isBare(node) {
			return r.refuse(node, path, "%s: no number may be that large", digits)
		}
	}
	return r.wrong(node, path, s)
}

// wholeFits reports whether a whole number is written as everybody reads it, and in bounds.
func (r *reader) wholeFits(node *ast.IntegerNode, s *jsonschema.Schema, path string) bool {
	written := node.GetToken().Value
	n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimPrefix(written, "+"), "_", ""), 10, 64)
	switch digits := strings.TrimLeft(written, "+-"); {
	case len(digits) > 1 && digits[0] == '0':
		return r.refuse(node, path, "%s: write the number in decimal digits, without a 0 in front", written)
	case err != nil:
		return r.refuse(node, path, "%s: no number may be that large", written)
	}
	return r.inBounds(node, float64(n), s, path)
}

func (r *reader) inBounds(node ast.Node, n float64, s *jsonschema.Schema, path string) bool {
	out := math.IsNaN(n) || math.IsInf(n, 0) || s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum ||
		s.ExclusiveMinimum != nil && n <= *s.ExclusiveMinimum || s.Not != nil && n == 0
	if !out {
		return true
	}
	hint := ""
	if n == 0 && s.Not == nil {
		hint = ", or leave it out"
	}
	return r.refuse(node, path, "%s: use %s%s", node.GetToken().Value, boundsOf(s), hint)
}

// boundsOf says in words which numbers there may be; "" if all.
func boundsOf(s *jsonschema.Schema) string {
	switch {
	case s.Not != nil:
		return "a number from 1 on, or " + s.Comment
	case s.ExclusiveMinimum != nil && s.Maximum != nil:
		return fmt.Sprintf("more than %v and at most %v", *s.ExclusiveMinimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("a number from %v on", *s.Minimum)
	}
	return ""
}

// nameOf is what the schema wants, for people.
func nameOf(s *jsonschema.Schema) string {
	switch kindOf(s) {
	case "object":
		return "keys with values"
	case "array":
		return "a list"
	case "integer":
		return "a whole number"
	case "number":
		return "a number"
	case "boolean":
		return "true or false"
	}
	if s.Pattern == durationPattern {
		return "a time with its unit"
	}
	if len(s.Enum) > 0 {
		return "one of " + strings.Trim(fmt.Sprint(s.Enum), "[]")
	}
	return "a text"
}

// shown is a value as messages have it.
func shown(node ast.Node) string {
	text := node.GetToken().Value
	switch node.(type) {
	case *ast.MappingNode:
		return "keys with values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + text
	case *ast.BoolNode:
		return text
	}
	return fmt.Sprintf("the text %.40q", text)
}

// instead is how what was written may have been meant; "" if nobody knows.
func instead(node ast.Node, s *jsonschema.Schema) string {
	text := node.GetToken().Value
	if _, holds := node.(ast.ScalarNode); !holds || strings.Contains(text, "\n") {
		return holderHint(node, s)
	}
	_, number := node.(*ast.IntegerNode)
	switch kind := kindOf(s); {
	case kind == "string" && s.Pattern == durationPattern && number:
		return fmt.Sprintf(": write %ss if seconds are meant", text)
	case kind == "string" && len(s.Enum) > 0:
		return ""
	case kind == "string":
		return fmt.Sprintf(`: write "%s" if it is meant as a text`, text)
	case kind == "boolean":
		return boolHint(text)
	case kind == "integer" && regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(text):
		return ": write " + text + ", without quotes"
	case kind == "integer":
		return ""
	case kind == "array":
		if inner, _ := element(s); kindOf(inner) == "string" {
			return fmt.Sprintf(": write [%s]", listed(text))
		}
	case kind == "object" && len(s.Required) == 1 && isBare(node):
		return fmt.Sprintf(": write {%s: %s}", s.Required[0], quoted(text))
	case kind == "object" && len(s.PropertyOrder) > 0 && len(s.PropertyOrder) <= fewKeys:
		return ": its keys are " + strings.Join(s.PropertyOrder, ", ")
	}
	return ""
}

// holderHint is for keys where a list is wanted.
func holderHint(node ast.Node, s *jsonschema.Schema) string {
	inner, suffix := element(s)
	if _, list := node.(*ast.SequenceNode); list && suffix == ".NAME" {
		return ": begin each entry with its name, as in NAME: …"
	}
	if _, keys := node.(*ast.MappingNode); !keys || suffix != "[]" || len(inner.Required) == 0 {
		return ""
	}
	return fmt.Sprintf(": begin each entry with a dash, as in - {%s: …}", inner.Required[0])
}

func boolHint(text string) string {
	switch word := strings.ToLower(text); {
	case slices.Contains([]string{"yes", "y", "on", "true", "1"}, word):
		return ": write true"
	case slices.Contains([]string{"no", "n", "off", "false", "0"}, word):
		return ": write false"
	}
	return ""
}

// quoted is a text as it is written in YAML: in quotes, unless it is a plain word.
func quoted(text string) string {
	if regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./ -]*$`).MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// listed are the words of a text, as a list has them.
func listed(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	for i, w := range words {
		if !regexp.MustCompile(`^[A-Za-z0-9_./-]+$`).MatchString(w) {
			words[i] = strconv.Quote(w)
		}
	}
	return strings.Join(words, ", ")
}

// isBare reports whether a text is written without quotes.
func isBare(node ast.Node) bool {
	origin := strings.TrimSpace(node.GetToken().Origin)
	return origin == "" || origin[0] != '"' && origin[0] != '\''
}

// kindOf is the kind of values that a schema wants.
func kindOf(s *jsonschema.Schema) string {
	if s.Type != "" {
		return s.Type
	}
	return "any"
}
