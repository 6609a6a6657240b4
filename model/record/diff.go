package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a difference.
const (
	around   = 2    // unchanged lines before and after a change
	maxShown = 60   // lines
	maxWidth = 160  // bytes of a line
	maxLines = 4000 // product limit: lines of one text times lines of the other, see changes
)

// explain describes how a request differs from the most similar recorded one.
func (t *tape) explain(asked request) string {
	if len(t.played) == 0 {
		return "the request was not recorded: the cassette is empty"
	}
	got := lines(asked.canonical)
	best, score := 0, -1
	for i, x := range t.played {
		if s := alike(lines(x.Request), got); s > score {
			best, score = i, s
		}
	}
	return fmt.Sprintf("the request was not recorded; the most similar of %d is number %d (- recorded, + requested):\n%s",
		len(t.played), best+1, strings.Join(difference(lines(t.played[best].Request), got), "\n"))
}

// lines returns a request, one value per line.
func lines(raw json.RawMessage) []string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", " "); err != nil {
		return []string{string(raw)}
	}
	return strings.Split(b.String(), "\n")
}

// alike counts the common lines at the start and end of two requests.
func alike(a, b []string) int {
	head, tail := frame(a, b)
	return head + tail
}

// frame counts the common lines at the start and at the end.
func frame(a, b []string) (head, tail int) {
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// difference returns the changed lines from a to b, with some context.
func difference(a, b []string) []string {
	head, tail := frame(a, b)
	var out []string
	for _, l := range a[max(0, head-around):head] {
		out = append(out, "  "+clip(l, 0))
	}
	out = append(out, changes(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail : min(len(a), len(a)-tail+around)] {
		out = append(out, "  "+clip(l, 0))
	}
	if len(out) > maxShown {
		out = append(out[:maxShown], fmt.Sprintf("… and %d more lines", len(out)-maxShown))
	}
	return out
}

// changes returns the difference between the common start and end.
func changes(a, b []string) []string {
	if len(a)*len(b) > maxLines*maxLines/16 {
		a, b = a[:min(len(a), maxShown)], b[:min(len(b), maxShown)]
	}
	var out []string
	keep := common(a, b)
	i, j := 0, 0
	for _, pair := range append(keep, [2]int{len(a), len(b)}) {
		gone, come := a[i:pair[0]], b[j:pair[1]]
		for k, l := range gone {
			out = append(out, "- "+clip(l, same(l, come, k)))
		}
		for k, l := range come {
			out = append(out, "+ "+clip(l, same(l, gone, k)))
		}
		if pair[0] < len(a) {
			out = append(out, "  "+clip(a[pair[0]], 0))
		}
		i, j = pair[0]+1, pair[1]+1
	}
	return out
}

// same returns the length of the common prefix of a line and its counterpart.
func same(line string, others []string, k int) int {
	if k >= len(others) {
		return 0
	}
	n := 0
	for n < min(len(line), len(others[k])) && line[n] == others[k][n] {
		n++
	}
	return n
}

// common returns a longest common subsequence as pairs of indexes.
func common(a, b []string) [][2]int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := range slices.Backward(a) {
		for j := range slices.Backward(b) {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	var pairs [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case table[i+1][j] >= table[i][j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}

// clip shortens a line around the position of a difference.
func clip(line string, differs int) string {
	if len(line) <= maxWidth {
		return line
	}
	from := max(0, differs-maxWidth/4)
	to := min(len(line), from+maxWidth)
	for from > 0 && !utf8.RuneStart(line[from]) {
		from--
	}
	for to < len(line) && !utf8.RuneStart(line[to]) {
		to++
	}
	out := line[from:to]
	if from > 0 {
		out = "…" + out
	}
	if to < len(line) {
		out += "…"
	}
	return out
}
