package sessions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/loop"
)

// lister lists sessions.
type lister struct {
	app                         *app.App
	state, agent, model, search string
	sort                        *cli.Choice
	limit                       int
}

func list(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the sessions, one per line",
		Long: `Lists the sessions with their state, how long ago they changed, and their title, which is the first
words that a user said. It reads each session: from its snapshot, and what its journal has since.

States are idle, working, approval (it waits for a person), yield, ready, closed, and aside: it broke
nodes, so none drives it ("turnlog dead").`,
		Example: `  turnlog sessions ls
  turnlog sessions ls --state approval
  turnlog sessions ls --search invoice --sort tokens --limit 10
  turnlog sessions ls --agent 'review*' -o json | jq -r '.[].session'`,
	}
	l := lister{app: a, sort: cli.NewChoice("age", "session", "tokens", "turns")}
	fs := cmd.Flags()
	fs.StringVar(&l.state, "state", "", "only sessions in this `state`")
	fs.StringVar(&l.agent, "agent", "", "only sessions whose agent matches this `pattern`, in which * stands for any characters")
	fs.StringVar(&l.model, "model", "", "only sessions whose model matches this `pattern`")
	fs.StringVar(&l.search, "search", "", "only sessions with this `text` in their ID or title, in any case")
	fs.IntVar(&l.limit, "limit", 0, "list at most this `number`; 0: all")
	l.sort.Register(cmd, "sort", "", "what decides the order, latest or most first")
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if l.limit < 0 {
			return cli.Usage("--limit %d: use 1 or more, or 0 for all", l.limit)
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			rows, err := l.rows(ctx, c)
			if err != nil {
				return err
			}
			return output.Print(rows, func(w io.Writer) error { return printSummaries(w, rows, time.Now()) })
		})
	}
	return cmd
}

// summary is a session in a list.
type summary struct {
	Session content.SessionID `json:"session"`
	State   string            `json:"state"`
	Title   string            `json:"title"`
	Agent   *agentReport      `json:"agent,omitempty"`
	Model   string            `json:"model"`
	Changed content.Time      `json:"changed_at"`
	Turns   int               `json:"turns"`
	Usage   app.Usage         `json:"usage"`
}

func (s summary) tokens() int64 { return s.Usage.InputTokens + s.Usage.OutputTokens }

func (s summary) agent() string {
	if s.Agent == nil {
		return "-"
	}
	return s.Agent.Name
}

// readers is how many sessions are read at once.
const readers = 16

// rows reads the sessions. One that cannot be read is reported and skipped; so is one that a
// driver has claimed and that never started.
func (l lister) rows(ctx context.Context, c *client.Client) ([]summary, error) {
	ids, err := c.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	broken, err := c.SetAside(ctx)
	if err != nil {
		return nil, err
	}
	aside := make(map[content.SessionID]bool)
	for _, t := range broken {
		aside[t.Session] = true
	}
	rows := []summary{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, id := range ids {
		group.Go(func() error {
			state, head, err := c.Read(ctx, id)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				l.app.Complain(err)
			case state.Opened && state.Deleted == nil:
				r := reportOf(state, head)
				if aside[id] {
					r.State = stateAside
				}
				row := summary{r.Session, r.State, titleOf(state), r.Agent, r.Model, r.Changed, r.Turns, r.Usage}
				if l.wants(row) {
					rows = append(rows, row)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(rows, l.compare)
	if l.limit > 0 {
		rows = rows[:min(l.limit, len(rows))]
	}
	return rows, nil
}

// wants reports whether the flags select a session.
func (l lister) wants(s summary) bool {
	text := strings.ToLower(string(s.Session) + "\n" + s.Title)
	return (l.state == "" || l.state == s.State) && (l.agent == "" || content.Matches(l.agent, s.agent())) &&
		(l.model == "" || content.Matches(l.model, s.Model)) && strings.Contains(text, strings.ToLower(l.search))
}

func (l lister) compare(a, b summary) int {
	order := 0
	switch l.sort.String() {
	case "age":
		order = cmp.Compare(b.Changed, a.Changed)
	case "tokens":
		order = cmp.Compare(b.tokens(), a.tokens())
	case "turns":
		order = cmp.Compare(b.Turns, a.Turns)
	}
	return cmp.Or(order, cmp.Compare(a.Session, b.Session))
}

// titleWidth is how many characters of a title are kept.
const titleWidth = 60

// titleOf returns the first words of a user in the transcript.
func titleOf(s *loop.State) string {
	for _, it := range s.Transcript {
		if it.Kind != content.User {
			continue
		}
		title := []rune(strings.Join(strings.Fields(it.Text()), " "))
		if len(title) > titleWidth {
			title = append(title[:titleWidth-1], '…')
		}
		return string(title)
	}
	return ""
}

func printSummaries(w io.Writer, rows []summary, now time.Time) error {
	return app.Table(w, "SESSION STATE AGE TURNS TOKENS MODEL AGENT TITLE", rows, func(s summary) []any {
		return []any{s.Session, s.State, age(now.Sub(s.Changed.Std())), s.Turns, s.tokens(), cmp.Or(s.Model, "-"), s.agent(), s.Title}
	})
}

// age rounds a duration down to its largest unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", max(d, 0)/time.Second)
}
