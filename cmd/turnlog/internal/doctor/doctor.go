// Package doctor is the command that examines a deployment and reports its problems,
// each with the reason why it matters and a fix.
//
// A finding is data. Checks only read and add findings; the output and the exit code are
// computed from the list. The doctor writes only a tiny blob, and it reads indexes rather
// than messages, so it is cheap on a busy deployment.
package doctor

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
)

// Command returns the command.
func Command(a *app.App) *cobra.Command {
	d := &doctor{nodeTools: make(map[string][]tool.Spec)}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose a deployment and suggest fixes",
		Long: `Reports the problems of a deployment, why each one matters, and how to fix it: streams and consumers
that are missing or misconfigured, durability below the profile, clocks that disagree, nodes that do
not answer, sessions that no node drives, work that makes no progress, full disks, queues without
workers, workers without tools, and permissions that this user lacks.

It changes nothing, except that it stores a tiny blob to check that writes are stored, if its user may
store blobs. It reads indexes of streams, and the journals of some sessions that look stuck. Findings
about permissions are about the user that it connects as.

Exit codes: 0 no errors (there may be warnings), 1 errors were found, 2 wrong usage.`,
		Example: `  turnlog doctor
  turnlog doctor --context production --profile audit --monitor http://n1:8222 -o json
  turnlog doctor --patience 5s --stalled 1m`,
	}
	fs := cmd.Flags()
	fs.DurationVar(&d.patience, "patience", patience, "report sessions that have waited longer than this `time` for a node")
	fs.DurationVar(&d.stalled, "stalled", stalled, "report model and tool calls without a new entry for longer than this `time`")
	fs.IntVar(&d.limit, "limit", limit, "examine at most this `number` of sessions for each kind of problem")
	d.durability = cli.NewDurability(cmd, "durability `profile` that the deployment must have")
	output := a.Output(cmd)
	r := a.RemoteAt(cmd, admin.RoleDoctor, zapcore.ErrorLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if d.patience < 0 || d.stalled < 0 || d.limit < 1 {
			return cli.Usage("--patience %v, --stalled %v, --limit %d: use positive values", d.patience, d.stalled, d.limit)
		}
		if err := d.durability.Check(); err != nil {
			return err
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			if err := d.run(ctx, r); err != nil {
				return err
			}
			err := output.Print(d.report, d.report.print)
			if err == nil && !d.report.Healthy {
				err = &cli.ExitError{Code: cli.CodeFailed}
			}
			return err
		})
	}
	return cmd
}

// Default times after which the doctor considers work stuck.
const (
	patience = 30 * time.Second
	stalled  = 10 * time.Minute
	limit    = 1000
)

// Stuck reports calls that no worker runs, sessions that no node drives, and work without progress. It changes nothing, and needs
// the permissions of a doctor.
func Stuck(ctx context.Context, cell *cli.Cell, c *client.Client) ([]report.Finding, error) {
	d := &doctor{
		patience: patience, stalled: stalled, limit: limit, nodeTools: make(map[string][]tool.Spec),
		cell: cell, client: c, admin: admin.Of(cell.Cell), report: examination{Namespace: cell.Namespace()},
	}
	seen, err := d.admin.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	d.serverClocks(seen)
	work, err := d.admin.Work(ctx)
	if err != nil {
		return nil, err
	}
	consumers := d.admin.InspectConsumers(ctx)
	d.queues(ctx, consumers, work)
	if w, known := d.cluster(ctx, work); known {
		d.sessions(ctx, w, consumers, work)
	}
	d.report.sort()
	all := make([]report.Finding, len(d.report.Findings))
	for i, f := range d.report.Findings {
		all[i] = f.Finding
	}
	return all, context.Cause(ctx)
}

// doctor examines one deployment, once.
type doctor struct {
	patience, stalled time.Duration
	limit             int
	durability        *cli.Durability

	cell   *cli.Cell
	client *client.Client
	admin  *admin.Cell
	denied *denials
	ahead  time.Duration // how far the server's clock, which measures ages, is ahead
	report examination

	nodeTools map[string][]tool.Spec // tools that nodes run themselves
	offers    []jetstream.Offer      // offers of workers
}

// examination is the result.
type examination struct {
	Namespace string     `json:"namespace"`
	Server    string     `json:"server"`
	Healthy   bool       `json:"healthy"` // no errors; there may be warnings
	Findings  []*finding `json:"findings"`
	Examined  examined   `json:"looked_at"`
}

// examined counts the examined objects. Nil means that they could not be examined.
type examined struct {
	Streams  *int  `json:"streams"`
	Nodes    *int  `json:"nodes"` // nodes that answer
	Workers  *int  `json:"workers"`
	Queues   *int  `json:"queues"`
	Sessions *int  `json:"sessions_at_work"` // sessions with an open turn, or a token
	Took     int64 `json:"took_ms"`
}

// String lists the counts, and which objects were not examined.
func (e examined) String() string {
	var done, not []string
	for _, c := range []struct {
		n         *int
		one, many string
	}{
		{e.Streams, "stream", "streams"},
		{e.Nodes, "node", "nodes"},
		{e.Workers, "worker", "workers"},
		{e.Queues, "queue", "queues"},
		{e.Sessions, "session at work", "sessions at work"},
	} {
		if c.n == nil {
			not = append(not, c.many)
		} else {
			done = append(done, render.Plural(*c.n, c.one, c.many))
		}
	}
	if len(not) > 0 {
		done = append(done, "not examined: "+strings.Join(not, ", "))
	}
	return strings.Join(done, ", ")
}

// run connects and examines.
func (d *doctor) run(ctx context.Context, r *app.Remote) (err error) {
	if d.cell, err = r.Dial(ctx, r.Program(), r.Logger()); err != nil {
		return err
	}
	defer d.cell.Close()
	if d.client, err = r.Client(d.cell); err != nil {
		return err
	}
	d.admin, d.denied = admin.Of(d.cell.Cell), listenForDenials(d.cell.Conn)
	began := time.Now()
	d.report = examination{Namespace: r.Namespace(), Server: d.cell.Conn.ConnectedUrlRedacted(), Findings: []*finding{}}
	d.examine(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.permissions()
	d.report.Examined.Took = time.Since(began).Milliseconds()
	d.report.Healthy = d.report.count(severityError) == 0
	d.report.sort()
	return nil
}

// sort puts errors first.
func (r examination) sort() {
	slices.SortStableFunc(r.Findings, func(a, b *finding) int { return strings.Compare(a.Severity, b.Severity) })
}

func (r examination) count(severity string) (n int) {
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// examine runs the checks whose requirements are met.
func (d *doctor) examine(ctx context.Context) {
	seen, err := d.admin.Inspect(ctx)
	if err != nil {
		d.found("jetstream-off", "", "%v", err)
		return
	}
	for _, s := range seen.Streams {
		if s.Restoring != "" {
			d.found("restore-unfinished", s.Stream, "the deployment is being made of the backup %s", s.Restoring).do("turnlog restore{namespace}, with the backup " + s.Restoring)
			return // storing a blob would stop the restore
		}
	}
	whole := d.streams(seen)
	d.durable(ctx, seen)
	d.serverClocks(seen)
	d.limits(ctx)
	d.health(ctx, seen)
	if !whole {
		return // other checks would only report the same
	}
	if lacking := d.admin.Unreadable(ctx); len(lacking) > 0 {
		d.unreadable(lacking)
		return
	}
	d.tickets(ctx)
	d.writable(ctx)
	consumers := d.admin.InspectConsumers(ctx)
	d.consumers(consumers)
	work, err := d.admin.Work(ctx)
	if err != nil {
		d.notExamined("sessions", err)
		return
	}
	d.queues(ctx, consumers, work)
	if w, known := d.cluster(ctx, work); known {
		d.nodeClocks(ctx)
		d.scriptedNodes(w)
		d.compareTools(w.living)
		d.compareReleases(w)
		d.sessions(ctx, w, consumers, work)
	}
}

func (r examination) print(w io.Writer) error {
	var b strings.Builder
	line := render.Style{Full: true}.Line
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s", f.Severity, f.Check)
		if f.Object != "" {
			fmt.Fprintf(&b, " (%s)", line(f.Object))
		}
		fmt.Fprintf(&b, "\n  what: %s\n  why:  %s\n  do:   %s\n", line(f.What), line(f.Why), line(f.Do))
		if len(f.Sessions) > 0 {
			fmt.Fprintf(&b, "  sessions: %s\n", line(strings.Trim(fmt.Sprint(f.Sessions), "[]")))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s at %s: %s, %s (%s; %d ms)\n", r.Namespace, r.Server,
		render.Plural(r.count(severityError), "error", "errors"), render.Plural(r.count(severityWarning), "warning", "warnings"), r.Examined, r.Examined.Took)
	_, err := io.WriteString(w, b.String())
	return err
}

// namespaceFlag names the cell in suggested commands, unless it is the default one.
func (d *doctor) namespaceFlag() string {
	if d.report.Namespace == jetstream.DefaultNamespace {
		return ""
	}
	return " --namespace " + d.report.Namespace
}

// serverNow is the time by the server's clock, which stamps messages.
func (d *doctor) serverNow() time.Time { return time.Now().Add(d.ahead) }
