package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// disclaimer begins every answer.
const disclaimer = `This is Turnlog's offline demo model: no language model, only rules that plan calls of file tools.
Choose another one with --model, for example --model scripted:FILE.`

const (
	width   = 92 // columns of an answer
	maxRows = 40 // of one list
)

// count renders a number of things: 1 file, 1,204 files.
func count(n int, noun string) string {
	if n != 1 {
		noun = plural(noun)
	}
	return thousands(n) + " " + noun
}

func plural(noun string) string {
	for _, end := range []string{"ch", "s", "x"} {
		if strings.HasSuffix(noun, end) {
			return noun + "es"
		}
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok {
		return stem + "ries"
	}
	return noun + "s"
}

// thousands groups the digits of n: 1,204.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// size renders a number of bytes: 512 B, 3.4 kB.
func size(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, units := float64(n), []string{"kB", "MB", "GB", "TB"}
	for i, unit := range units {
		v /= 1000
		if v < 999.95 || i == len(units)-1 {
			return fmt.Sprintf("%.1f %s", v, unit)
		}
	}
	return ""
}

// table aligns the cells of rows in columns, two blanks apart. Columns whose
// index is in right are aligned at their right end.
func table(rows [][]string, indent int, right ...int) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		padded := make([]string, len(row))
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(right, i) {
				padded[i] = pad + cell
			} else {
				padded[i] = cell + pad
			}
		}
		line := strings.Repeat(" ", indent) + strings.Join(padded, "  ")
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// wrap breaks text into lines that begin with indent blanks.
func wrap(text string, indent int) string {
	var b strings.Builder
	line := ""
	flush := func() {
		if line != "" {
			b.WriteString(strings.Repeat(" ", indent) + line + "\n")
		}
		line = ""
	}
	for word := range strings.FieldsSeq(text) {
		if line != "" && indent+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			flush()
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	flush()
	return b.String()
}

// clip cuts a line of code to what fits behind its place.
func clip(text string, room int) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\t", " "))
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:max(room-1, 1)]) + "…"
}

// place names a directory in a sentence.
func place(dir string) string {
	if dir == "." {
		return "this directory"
	}
	return dir
}

// more says that a list goes on.
func more(n int, noun string) string {
	if n <= 0 {
		return ""
	}
	return "  … and " + thousands(n) + " more " + plural(noun) + "\n"
}
