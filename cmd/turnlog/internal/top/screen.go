package top

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// report is a view as -o json prints it.
type report struct {
	At          time.Time           `json:"at"`
	Nodes       int                 `json:"nodes"`
	Appends     appendReport        `json:"appends"`
	Queues      []admin.QueueReport `json:"queues"`
	Sessions    admin.SessionCounts `json:"sessions"`
	Approvals   listedReport        `json:"approvals"`
	DeadLetters listedReport        `json:"dead_letters"`
}

type appendReport struct {
	Count   int     `json:"count"`
	Mean    float64 `json:"mean_seconds"`
	Slowest float64 `json:"slowest_seconds"`
}

type listedReport struct {
	Sessions int     `json:"sessions"`
	Oldest   float64 `json:"oldest_seconds"`
}

func reportOf(b admin.Backlog) report {
	return report{
		At: b.At, Nodes: b.Nodes, Appends: appendReport{b.Appends.Count, b.Appends.Mean.Seconds(), b.Appends.Slowest.Seconds()}, Queues: b.QueueReports(), Sessions: b.Sessions,
		Approvals: listedReport{b.Approvals.Sessions, b.Approvals.Oldest.Seconds()}, DeadLetters: listedReport{b.DeadLetters.Sessions, b.DeadLetters.Oldest.Seconds()},
	}
}

// print prints a view once.
func (t *top) print(v view) error {
	return t.output.Print(reportOf(v.Backlog), v.write)
}

// write writes a view for people.
func (v view) write(w io.Writer) error {
	s := v.Sessions
	_, _ = fmt.Fprintf(w, "Sessions: %d driven, %d waiting for a node, %d set aside, %d parked. %s.\n",
		s.Driven, s.Waiting, s.Aside, s.Parked, render.Plural(v.Nodes, "node", "nodes"))
	_, _ = fmt.Fprintf(w, "Waiting for a person: %s. Dead letters: %s.\n", listed(v.Approvals), listed(v.DeadLetters))
	appends := "none in the last seconds"
	if a := v.Appends; a.Count > 0 {
		appends = fmt.Sprintf("%s in the last seconds, in %v on average and %v at most", humanize.Comma(int64(a.Count)), a.Mean.Round(appendUnit), a.Slowest.Round(appendUnit))
	}
	_, _ = fmt.Fprintf(w, "Entries recorded: %s.\n\n", appends)
	return app.Table(w, "QUEUE WAITING RUNNING OLDEST WORKERS WANTED", v.Queues, func(q admin.QueueBacklog) []any {
		oldest := "-"
		if q.Waiting > 0 {
			oldest = age(q.Oldest)
		}
		return []any{q.Queue, q.Waiting, q.Running, oldest, q.Workers, q.Wanted}
	})
}

// writeDone writes what was done.
func (v view) writeDone(w io.Writer) {
	d, turns := v.Done, int64(0)
	for _, n := range d.Turns {
		turns += n
	}
	text := fmt.Sprintf("In %s: %s entries, %s turns (%d failed), %s tokens in, %s out", age(v.At.Sub(d.Since)), humanize.Comma(d.Entries), humanize.Comma(turns),
		d.Turns[content.Errored], humanize.Comma(d.Usage.InputTokens), humanize.Comma(d.Usage.OutputTokens))
	if cost := d.Usage.Cost(); cost != "" {
		text += ", " + render.Safe(cost)
	}
	text += fmt.Sprintf(", %d taken over", d.Takeovers)
	if v.Lag > 0 {
		text += fmt.Sprintf("; %s entries behind", humanize.Comma(int64(v.Lag))) //nolint:gosec // a count of messages
	}
	_, _ = fmt.Fprintf(w, "\n%s.\n", text)
}

// appendUnit is the unit to which append times are rounded.
const appendUnit = 100 * time.Microsecond

func listed(l admin.Listed) string {
	if l.Sessions == 0 {
		return "none"
	}
	return render.Plural(l.Sessions, "session", "sessions") + ", since " + age(l.Oldest)
}

func age(d time.Duration) string {
	return d.Round(time.Second).String()
}

// screen draws each view over the previous one. Earlier output stays.
type screen struct {
	out   io.Writer
	lines int // of the last view
}

func (s *screen) draw(v view) error {
	var b bytes.Buffer
	if err := v.write(&b); err != nil {
		return err
	}
	v.writeDone(&b)
	text := b.String()
	if s.lines > 0 {
		text = fmt.Sprintf("\x1b[%dF\x1b[J", s.lines) + text
	}
	s.lines = strings.Count(b.String(), "\n")
	_, err := io.WriteString(s.out, text)
	return err
}
