package fetch

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// decoded converts text to UTF-8 from the charset of its byte order mark, else the one
// that the server states, else, for HTML, the one that the page states or that browsers
// assume. Other content is returned unchanged.
func decoded(body []byte, kind, header string, cut bool) []byte {
	if !textKind(kind) {
		return body
	}
	look := body[:min(len(body), utf8.UTFMax)] // room for a byte order mark
	if isHTML(kind) {
		look = body
	}
	from, _, certain := charset.DetermineEncoding(look, header)
	if certain || isHTML(kind) && !valid(body, cut) {
		if text, err := from.NewDecoder().Bytes(body); err == nil {
			body = text
		}
	}
	return bytes.TrimPrefix(body, []byte("\uFEFF"))
}

// valid reports whether a body is UTF-8, except for a last character that was cut.
func valid(body []byte, cut bool) bool {
	for n := 1; cut && n < min(len(body), utf8.UTFMax); n++ {
		if utf8.Valid(body[:len(body)-n]) {
			return true
		}
	}
	return utf8.Valid(body)
}
