// Package yamldepth bounds the nesting of YAML before it is parsed.
//
// The one idea: the parser takes minutes for a few kilobytes of nested brackets, so they are
// counted among the tokens. Nesting by indentation is harmless to the parser.
package yamldepth

import "github.com/goccy/go-yaml/token"

// Max is how deep lists and mappings may nest.
const Max = 64

// TooDeep returns the first of the brackets, or of the list entries on one line, that nest too
// deeply; nil: there is none.
func TooDeep(tokens token.Tokens) *token.Token {
	brackets, entries := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		case token.MappingStartType, token.SequenceStartType:
			brackets++
			entries = 0
		case token.MappingEndType, token.SequenceEndType:
			brackets--
			entries = 0
		default:
			entries = 0
		}
		if brackets > Max || entries > Max {
			return t
		}
	}
	return nil
}
