package tests

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/jetstream/admin"
)

// placeholder is how subjects.md writes the namespace.
const placeholder = "<ns>"

// TestSubjectsPageSaysWhatTheCodeDoes compares the tables of subjects.md with the
// cell that Provision makes. Prose in the last column is for readers.
func TestSubjectsPageSaysWhatTheCodeDoes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../subjects.md")
	if err != nil {
		t.Fatal(err)
	}
	cfg := admin.Config{Queues: []admin.QueueConfig{{Name: "<queue>"}}}
	topology := admin.Topology(placeholder, cfg)
	for _, tt := range []struct {
		heading string
		columns []string
		want    [][]string
	}{
		{"Streams", []string{"Name", "Stream", "Subjects", "Settings", "Live copies"}, streamRows(topology)},
		{"Consumers", []string{"Stream", "Consumer", "Filter", "Settings"}, consumerRows(topology)},
		{"Who may write what", []string{"Subject", "Kept in", "Written by", "Read by"}, subjectRows(admin.Subjects(placeholder))},
		{"Headers", []string{"Header", "On"}, headerRows(admin.Headers())},
	} {
		t.Run(tt.heading, func(t *testing.T) {
			t.Parallel()
			header, rows := table(t, string(page), tt.heading)
			if got := header[:min(len(header), len(tt.columns))]; !slices.Equal(got, tt.columns) {
				t.Fatalf("columns = %q, want %q", got, tt.columns)
			}
			for i, row := range rows {
				if len(row) != len(tt.columns)+1 || row[len(row)-1] == "" {
					t.Fatalf("row %d = %q, want %d cells and a last one in words", i+1, row, len(tt.columns)+1)
				}
				rows[i] = row[:len(tt.columns)]
			}
			if diff := cmp.Diff(tt.want, rows); diff != "" {
				t.Errorf("subjects.md and the code differ (-code +page):\n%s", diff)
			}
		})
	}
}

func streamRows(topology []admin.Row) [][]string {
	var out [][]string
	for _, r := range topology {
		out = append(out, []string{r.Name, r.Stream, strings.Join(r.Subjects, ", "), settings(r.Settings), r.Live})
	}
	return out
}

func consumerRows(topology []admin.Row) [][]string {
	var out [][]string
	for _, r := range topology {
		for _, c := range r.Consumers {
			out = append(out, []string{r.Name, c.Name, c.Filter, settings(c.Settings)})
		}
	}
	return out
}

func subjectRows(subjects []admin.SubjectRow) [][]string {
	var out [][]string
	for _, s := range subjects {
		out = append(out, []string{s.Subject, s.Kept, roles(s.Writers), roles(s.Readers)})
	}
	return out
}

func headerRows(headers []admin.HeaderRow) [][]string {
	var out [][]string
	for _, h := range headers {
		out = append(out, []string{h.Name, strings.Join(h.On, ", ")})
	}
	return out
}

func settings(list []admin.Setting) string {
	var out []string
	for _, s := range list {
		out = append(out, s.String())
	}
	return strings.Join(out, ", ")
}

func roles(list []admin.Role) string {
	var out []string
	for _, r := range list {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}

// table returns the first table below a heading, without backticks.
func table(t *testing.T, page, heading string) (header []string, rows [][]string) {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("subjects.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, "`", "")))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 2 {
		t.Fatalf("section %q of subjects.md has no table", heading)
	}
	return rows[0], rows[1:]
}

// TestEverySubjectIsKeptWhereThePageSays compares the list of subjects with the subjects of the
// streams: each subject is stored by the stream that is listed and no other, and every subject of
// a stream is listed.
func TestEverySubjectIsKeptWhereThePageSays(t *testing.T) {
	t.Parallel()
	topology := admin.Topology(placeholder, admin.Config{})
	used := map[string]bool{}
	for _, s := range admin.Subjects(placeholder) {
		var kept []string
		for _, r := range topology {
			for _, pattern := range r.Subjects {
				if covers(pattern, s.Subject) {
					kept = append(kept, r.Name)
					used[pattern] = true
				}
			}
		}
		if got := strings.Join(kept, ", "); got != s.Kept {
			t.Errorf("%s is kept in %q, listed as kept in %q", s.Subject, got, s.Kept)
		}
	}
	for _, r := range topology {
		for _, pattern := range r.Subjects {
			if !used[pattern] {
				t.Errorf("%s takes %s, and no subject that is listed", r.Name, pattern)
			}
		}
	}
}

// TestLiveCopiesAreTheServersAlone compares the live copies of streams with the list of subjects.
func TestLiveCopiesAreTheServersAlone(t *testing.T) {
	t.Parallel()
	copies := 0
	for _, s := range admin.Subjects(placeholder) {
		live := strings.HasPrefix(s.Subject, placeholder+".live.")
		if servers := slices.Equal(s.Writers, []admin.Role{admin.RoleServer}); live && !servers {
			t.Errorf("%s may be written by %v, want the server alone", s.Subject, s.Writers)
		}
		if live != slices.ContainsFunc(admin.Topology(placeholder, admin.Config{}), func(r admin.Row) bool {
			return covers(r.Live, s.Subject)
		}) {
			t.Errorf("%s: the streams' live copies say otherwise", s.Subject)
		}
		if live {
			copies++
		}
	}
	if copies != 4 {
		t.Errorf("%d subjects of live copies, want those of entries, commands, timers and schedules", copies)
	}
}

// covers reports whether a pattern with wildcards matches a subject.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s), token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}
