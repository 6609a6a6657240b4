package eval

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
)

// Formats are the names of the formats that Write knows.
func Formats() []string { return []string{"text", "json", "junit", "markdown"} }

// Write writes the report in one of the Formats.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(r) //nolint:wrapcheck // of the writer
	case "junit":
		return r.junit(w)
	case "markdown":
		return r.markdown(w)
	}
	return r.text(w)
}

// row is a case as tables show it.
func (d Done) row() []string {
	word := "FAIL"
	if d.Passed {
		word = "pass"
	}
	return []string{
		d.Name, word, d.Rate.String(), strconv.FormatInt(d.sum(func(r Result) int64 { return int64(r.Rounds) }), 10),
		strconv.FormatInt(d.sum(func(r Result) int64 { return r.Tokens }), 10), d.money(),
	}
}

// money returns what the results cost, as far as it is known.
func (d Done) money() string {
	var all content.Usage
	for _, r := range d.Results {
		all = all.Add(content.Usage{CostMicros: r.CostMicros, Currency: r.Currency})
	}
	return cmp.Or(all.Cost(), "-")
}

// fault is a check that failed in some results of a case, in the same way.
type fault struct {
	Failure

	where []string
}

// faults returns the problems of a case.
func (d Done) faults() (all []fault) {
	for _, r := range d.Results {
		for _, f := range r.Problems {
			i := slices.IndexFunc(all, func(of fault) bool { return of.Failure == f })
			if i < 0 {
				i, all = len(all), append(all, fault{Failure: f})
			}
			all[i].where = append(all[i].where, r.where())
		}
	}
	return all
}

// String returns the fault on one line, without its place.
func (f fault) String() string { return f.Check + ": " + f.Problem }

// places says where the fault is.
func (f fault) places() string {
	const most = 3
	if more := len(f.where) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(f.where[:most], ", "), more)
	}
	return strings.Join(f.where, ", ")
}

// where says where to look up a result.
func (r Result) where() string {
	switch {
	case r.Journal != "":
		return r.Journal
	case r.Replay:
		return "a replay, which --journals keeps"
	}
	return "session " + string(r.Session)
}

// verdict returns the lines that say whether the suite passes, and why.
func (r *Report) verdict() (lines []string) {
	lines = append(lines, fmt.Sprintf("%s: %d of %d cases pass", r.Suite, r.Passed.Passed, r.Passed.Of))
	if !r.Baseline {
		return lines
	}
	for _, c := range r.Regressions {
		lines = append(lines, fmt.Sprintf("regression: %s: %s", c.Case, c.Why))
	}
	for _, name := range r.Improved {
		lines = append(lines, fmt.Sprintf("improved: %s failed in the baseline", name))
	}
	for _, name := range r.Missing {
		lines = append(lines, fmt.Sprintf("missing: %s is only in the baseline", name))
	}
	if len(r.Regressions) == 0 {
		lines = append(lines, "no regressions")
	}
	return lines
}

func (r *Report) text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "CASE\tRESULT\tPASSED (95 %)\tROUNDS\tTOKENS\tCOST") // Flush reports errors
	for _, d := range r.Cases {
		_, _ = fmt.Fprintln(t, render.Safe(strings.Join(d.row(), "\t")))
	}
	if err := t.Flush(); err != nil {
		return err //nolint:wrapcheck // of the writer
	}
	var b strings.Builder
	for _, d := range r.Cases {
		for _, f := range d.faults() {
			fmt.Fprintf(&b, "\n%s: %s\n  %s\n  %d of %d: %s\n", render.Safe(d.Name), render.Safe(f.Check), render.Safe(f.Problem), len(f.where), d.Rate.Of, f.places())
		}
	}
	for i, line := range r.verdict() {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(render.Safe(line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err //nolint:wrapcheck // of the writer
}

// cell returns text for a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'").Replace(render.Safe(strings.ReplaceAll(text, "\n", " ")))
}

func (r *Report) markdown(w io.Writer) error {
	var b strings.Builder
	lines := r.verdict()
	fmt.Fprintf(&b, "### %s\n\n", cell(lines[0]))
	for _, l := range lines[1:] {
		fmt.Fprintf(&b, "- %s\n", cell(l))
	}
	b.WriteString("\n| case | result | passed (95 %) | rounds | tokens | cost |\n|---|---|---|--:|--:|--:|\n")
	for _, d := range r.Cases {
		cells := d.row()
		for i := range cells {
			cells[i] = cell(cells[i])
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	for _, d := range r.Cases {
		for _, f := range d.faults() {
			fmt.Fprintf(&b, "\n- **%s**: %s (%d of %d: %s)", cell(d.Name), cell(f.String()), len(f.where), d.Rate.Of, cell(f.places()))
		}
	}
	_, err := fmt.Fprintf(w, "%s\n", b.String())
	return err //nolint:wrapcheck // of the writer
}

// suiteXML is a report in the format of JUnit. A case is a test case.
type suiteXML struct {
	XMLName  xml.Name  `xml:"testsuite"`
	Name     string    `xml:"name,attr"`
	Tests    int       `xml:"tests,attr"`
	Failures int       `xml:"failures,attr"`
	Skipped  int       `xml:"skipped,attr"`
	Time     string    `xml:"time,attr"` // seconds
	Cases    []caseXML `xml:"testcase"`
}

type caseXML struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Time    string      `xml:"time,attr"`
	Failure *failureXML `xml:"failure"`
	Skipped *reasonXML  `xml:"skipped"`
	Out     string      `xml:"system-out"`
}

type failureXML struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type reasonXML struct {
	Message string `xml:"message,attr"`
}

// junit writes JUnit XML. A case is a failure if it fails the pipeline. A case that fails as in the baseline is skipped.
func (r *Report) junit(w io.Writer) error {
	out := suiteXML{Name: r.Suite, Tests: len(r.Cases)}
	var all float64
	for _, d := range r.Cases {
		c, took := caseXML{Class: r.Suite, Name: d.Name}, 0.0
		var problems, sessions []string
		for _, res := range d.Results {
			took += res.Seconds
			sessions = append(sessions, string(res.Session))
		}
		for _, f := range d.faults() {
			problems = append(problems, fmt.Sprintf("%s (%d of %d: %s)", f, len(f.where), d.Rate.Of, f.places()))
		}
		all += took
		c.Time, c.Out = fmt.Sprintf("%.3f", took), "sessions: "+strings.Join(sessions, " ")
		switch why := r.why(d); {
		case why != "":
			out.Failures++
			c.Failure = &failureXML{why, strings.Join(problems, "\n")}
		case !d.Passed:
			out.Skipped++
			c.Skipped = &reasonXML{"it fails as in the baseline: " + d.Rate.String()}
		}
		out.Cases = append(out.Cases, c)
	}
	out.Time = fmt.Sprintf("%.3f", all)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err //nolint:wrapcheck // of the writer
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(out); err != nil {
		return err //nolint:wrapcheck // of the writer
	}
	_, err := io.WriteString(w, "\n")
	return err //nolint:wrapcheck // of the writer
}

// why returns why a case fails the pipeline, or "".
func (r *Report) why(d Done) string {
	for _, c := range r.Regressions {
		if c.Case == d.Name {
			return c.Why
		}
	}
	if !r.Baseline && !d.Passed {
		return d.Rate.String() + " of its repeats passed"
	}
	return ""
}
