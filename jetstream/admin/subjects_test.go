package admin

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

// placeholder is how subjects.md writes the namespace.
const placeholder = "<ns>"

// TestSubjectsPageMatchesTheCode compares the tables of subjects.md with the cell that Provision
// creates. The last column is prose.
func TestSubjectsPageMatchesTheCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../subjects.md")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Queues: []QueueConfig{{Name: "<queue>"}}}
	topology := Topology(placeholder, cfg)
	for _, tt := range []struct {
		heading string
		columns []string
		want    [][]string
	}{
		{"Streams", []string{"Name", "Stream", "Subjects", "Settings", "Live copies"}, streamRows(topology)},
		{"Consumers", []string{"Stream", "Consumer", "Filter", "Settings"}, consumerRows(topology)},
		{"Writers and readers", []string{"Subject", "Kept in", "Written by", "Read by"}, subjectRows(Subjects(placeholder))},
		{"Headers", []string{"Header", "On"}, headerRows(headers())},
	} {
		t.Run(tt.heading, func(t *testing.T) {
			t.Parallel()
			header, rows := table(t, string(page), tt.heading)
			if got := header[:min(len(header), len(tt.columns))]; !slices.Equal(got, tt.columns) {
				t.Fatalf("columns = %q, want %q", got, tt.columns)
			}
			for i, row := range rows {
				if len(row) != len(tt.columns)+1 || row[len(row)-1] == "" {
					t.Fatalf("row %d = %q, want %d cells, the last one in prose", i+1, row, len(tt.columns)+1)
				}
				rows[i] = row[:len(tt.columns)]
			}
			if diff := cmp.Diff(tt.want, rows); diff != "" {
				t.Errorf("subjects.md and the code differ (-code +page):\n%s", diff)
			}
		})
	}
}

// streamRows returns the settings that are neither the server's defaults nor set by Config.
func streamRows(topology []Row) [][]string {
	defaults := settings(jetstream.StreamConfig{})
	var out [][]string
	for _, r := range topology {
		var list []string
		for i, s := range settings(r.config) {
			if s != defaults[i] && !slices.Contains([]string{"subjects", "republish", "storage", "num_replicas"}, s.Name) {
				list = append(list, s.Name+"="+s.Value)
			}
		}
		out = append(out, []string{r.Name, r.Stream, strings.Join(r.config.Subjects, ", "), strings.Join(list, ", "), liveCopies(r)})
	}
	return out
}

// liveCopies returns the subject of a stream's live copies.
func liveCopies(r Row) string {
	if r.config.RePublish == nil {
		return ""
	}
	return r.config.RePublish.Destination
}

func consumerRows(topology []Row) [][]string {
	var out [][]string
	for _, r := range topology {
		for _, o := range r.consumers {
			config, _ := o.config.(jetstream.ConsumerConfig)
			var list []string
			for _, s := range settings(config)[2:] { // the first two are filters
				list = append(list, s.Name+"="+s.Value)
			}
			out = append(out, []string{r.Name, config.Durable, config.FilterSubject, strings.Join(list, ", ")})
		}
	}
	return out
}

func subjectRows(subjects []SubjectRow) [][]string {
	var out [][]string
	for _, s := range subjects {
		out = append(out, []string{s.Subject, s.Kept, roles(s.Writers), roles(s.Readers)})
	}
	return out
}

func headerRows(headers []headerRow) [][]string {
	var out [][]string
	for _, h := range headers {
		out = append(out, []string{h.name, strings.Join(h.on, ", ")})
	}
	return out
}

func roles(list []Role) string {
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

// TestEverySubjectIsStoredByItsStream compares the list of subjects with the streams: the listed
// stream and no other one stores a subject, and every subject of a stream is listed.
func TestEverySubjectIsStoredByItsStream(t *testing.T) {
	t.Parallel()
	topology := Topology(placeholder, Config{})
	used := map[string]bool{}
	for _, s := range Subjects(placeholder) {
		var kept []string
		for _, r := range topology {
			for _, pattern := range r.config.Subjects {
				if covers(pattern, s.Subject) {
					kept = append(kept, r.Name)
					used[pattern] = true
				}
			}
		}
		if got := strings.Join(kept, ", "); got != s.Kept {
			t.Errorf("%s is stored by %q, listed under %q", s.Subject, got, s.Kept)
		}
	}
	for _, r := range topology {
		for _, pattern := range r.config.Subjects {
			if !used[pattern] {
				t.Errorf("%s stores %s, which covers no listed subject", r.Name, pattern)
			}
		}
	}
}

// TestOnlyTheServerWritesLiveCopies compares the live copies of streams with the list of subjects.
func TestOnlyTheServerWritesLiveCopies(t *testing.T) {
	t.Parallel()
	copies := 0
	for _, s := range Subjects(placeholder) {
		live := strings.HasPrefix(s.Subject, placeholder+".live.")
		if servers := slices.Equal(s.Writers, []Role{RoleServer}); live && !servers {
			t.Errorf("%s may be written by %v, want only the server", s.Subject, s.Writers)
		}
		if live != slices.ContainsFunc(Topology(placeholder, Config{}), func(r Row) bool {
			return covers(liveCopies(r), s.Subject)
		}) {
			t.Errorf("%s does not match the live copies of the streams", s.Subject)
		}
		if live {
			copies++
		}
	}
	if copies != 6 {
		t.Errorf("%d subjects of live copies, want those of entries, commands (of users with and without names), timers and schedules (likewise)", copies)
	}
}
