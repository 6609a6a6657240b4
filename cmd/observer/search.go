package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
)

func newSearchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "search [SESSION...]",
		Short: "Find events in many journals, by tool, person, status, time and text",
		Long: `Finds events in the journals of all sessions, of named sessions, or of exported files, and prints one line
for each event that matches all flags. In --tool and --person, * matches any characters.

--person matches the sender of input, a decision, a cancel or a deletion, by verified or claimed name. --status
matches that of a result, an approval, a hook, a turn or a task, such as error, denied, expired, lost or completed.
--text matches part of any text of an event, ignoring the case of ASCII letters. --since and --until are a time
(2026-11-25T10:00:00Z), a day in UTC (2026-11-25) or a duration before now (36h).

Journals with unreadable entries are listed on standard error at the end, and so are sealed sessions whose key is
missing, unless they were erased; then the exit code is 1.

It does not verify journals: use "observer verify" for that.`,
		Example: `  observer search --tool 'shell_*' --status denied
  observer search --person alice --since 168h
  observer search s-42 --text "rm -rf" -o jsonl
  observer search --file s-42.jsonl --file s-43.jsonl --status approved`,
		Args: cobra.ArbitraryArgs,
	}
	var q explain.Query
	var since, until string
	cmd.Flags().StringVar(&q.Tool, "tool", "", "only events about a tool that matches this `pattern`")
	cmd.Flags().StringVar(&q.Person, "person", "", "only events caused by a person who matches this `pattern`")
	cmd.Flags().StringVar(&q.Status, "status", "", "only events with this `status`")
	cmd.Flags().StringVar(&q.Text, "text", "", "only events with this `text`")
	cmd.Flags().StringVar(&since, "since", "", "only entries at or after this `time`")
	cmd.Flags().StringVar(&until, "until", "", "only entries before this `time`")
	files := cmd.Flags().StringArray("file", nil, "search an exported `file` instead of sessions; repeat it for more, - is standard input")
	_ = cmd.MarkFlagFilename("file") // the flag exists
	output := cli.OutputFlag(cmd, asText, asLines)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		now := time.Now()
		if q.From, err = parseTime("--since", since, now); err != nil {
			return err
		}
		if q.To, err = parseTime("--until", until, now); err != nil {
			return err
		}
		switch {
		case q == (explain.Query{}):
			return cli.Usage("give at least one of --tool, --person, --status, --text, --since and --until")
		case q.To != 0 && q.From >= q.To:
			return cli.Usage("--since %s is not before --until %s", since, until)
		case len(*files) > 0 && len(args) > 0:
			return cli.Usage("give sessions or --file, not both")
		}
		out := bufio.NewWriter(cmd.OutOrStdout())
		s := searching{cmd: cmd, query: q, hit: printHit(out, a.style(cmd, false), output.String() == asLines)}
		if len(*files) > 0 {
			s.files(*files)
		} else if err := s.sessions(a, args); err != nil {
			return errors.Join(err, out.Flush())
		}
		return errors.Join(append(s.failed, out.Flush())...)
	}
	return cmd
}

// searching searches journals one by one, so that only one of them is in memory at a time.
type searching struct {
	cmd    *cobra.Command
	query  explain.Query
	hit    func(explain.Hit) error
	failed []error
}

func (s *searching) files(names []string) {
	for _, file := range names {
		in, name, err := openFile(s.cmd, "--file", file)
		if err != nil {
			s.failed = append(s.failed, err)
			continue
		}
		s.journal(named(name, audit.Import(in)))
		_ = in.Close() // only read
	}
}

func (s *searching) sessions(a *app, args []string) error {
	named, err := cli.ParseSessions(args)
	if err != nil {
		return err
	}
	return a.with(s.cmd, func(cell *cli.Cell) (err error) {
		sessions := named
		if len(named) == 0 {
			if sessions, err = cell.Journal().Sessions(s.cmd.Context()); err != nil {
				return err
			}
		}
		for _, id := range sessions {
			s.journal(skipGone(read(s.cmd.Context(), cell, id, 1), len(named) == 0))
		}
		return nil
	})
}

// skipGone omits the error about a session that was deleted after it was listed.
func skipGone(records iter.Seq2[journal.Record, error], listed bool) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for rec, err := range records {
			if listed && errors.Is(err, journal.ErrNotFound) || !yield(rec, err) {
				return
			}
		}
	}
}

func (s *searching) journal(records iter.Seq2[journal.Record, error]) {
	searcher := explain.NewSearcher(s.query)
	var unread error // why the first one was
	count := 0
	for rec, err := range records {
		if err == nil {
			err = searcher.Add(rec, s.hit)
		}
		if err != nil {
			s.failed = append(s.failed, err)
			return
		}
		if rec.Err != nil {
			count++
			unread = cmp.Or(unread, fmt.Errorf("session %s: %w", rec.Entry.Session, rec.Err))
		}
		if d, _ := events.DeletionOf(rec.Entry); d.Erased { // its content is nowhere
			unread = nil
		}
	}
	if unread != nil {
		s.failed = append(s.failed, fmt.Errorf("%w (not searched: %s)", unread, render.Plural(count, "entry", "entries")))
	}
}

// printHit returns a function that prints a hit as one line.
func printHit(out *bufio.Writer, style render.Style, lines bool) func(explain.Hit) error {
	enc := json.NewEncoder(out)
	return func(h explain.Hit) error {
		var err error
		if lines {
			err = enc.Encode(h)
		} else {
			err = render.Hit(out, style, h)
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		return nil
	}
}

// parseTime parses a time, a day, or how long before now it was; "" is none.
func parseTime(flag, text string, now time.Time) (content.Time, error) {
	if text == "" {
		return 0, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return content.TimeOf(now.Add(-ago)), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, strings.ToUpper(text)); err == nil {
			return content.TimeOf(at), nil
		}
	}
	return 0, cli.Usage("%s %q: use a time like 2026-11-25T10:00:00Z, a day like 2026-11-25, or a duration before now, like 36h", flag, text)
}
