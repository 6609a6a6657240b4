package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

func newDoctorCommand(a *app) *cobra.Command {
	d := &doctor{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with a deployment, and what to do about it",
		Long: `Looks at a deployment and says of everything that is wrong what it is, why it matters and what
to do: streams and consumers that are missing or have other settings, durability below the
profile, clocks that disagree, nodes that do not answer, sessions that nobody drives, work that
does not get on, queues without workers, workers without tools, permissions that this user lacks.

It changes nothing. It reads indexes of streams, and the journals of a few sessions that look as
if they were stuck. What is said about permissions is about the user that it connects as.

Exit codes: 0 no errors (there may be warnings), 1 errors were found, 2 wrong usage.`,
		Example: `  turnlog doctor
  turnlog doctor --context production --profile audit --monitor http://n1:8222 -o json
  turnlog doctor --patience 5s --stalled 1m`,
	}
	fs := cmd.Flags()
	fs.DurationVar(&d.patience, "patience", 30*time.Second, "`time` that a session may wait to be driven")
	fs.DurationVar(&d.stalled, "stalled", 10*time.Minute, "`time` that a model or tool call may take without anything being recorded")
	fs.IntVar(&d.limit, "limit", 1000, "`sessions` to look at, of each kind that looks as if it were stuck")
	d.durability = cli.NewDurability(cmd, "durability `profile` that the deployment is to have")
	output := cli.OutputFlag(cmd, "text", "json")
	deployment := cli.NewDeployment(cmd, a.getenv)
	logs := cli.NewLog(cmd, zapcore.ErrorLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if d.patience < 0 || d.stalled < 0 || d.limit < 1 {
			return usageError("--patience %v, --stalled %v, --limit %d: use positive values", d.patience, d.stalled, d.limit)
		}
		if err := d.durability.Check(); err != nil {
			return err
		}
		return a.interruptible(cmd.Context(), func(ctx context.Context) error {
			r, err := d.look(ctx, deployment, logs.Logger(a.term.err, a.getenv))
			if err != nil {
				return err
			}
			return r.show(a.term.out, output.String())
		})
	}
	return cmd
}

// doctor examines one deployment, once.
type doctor struct {
	patience, stalled time.Duration
	limit             int
	durability        *cli.Durability

	cell   *cli.Cell
	client *client.Client
	denied *denials
	ahead  time.Duration // of the server's clock, so that ages are told by one
	report doctorReport
}

// doctorReport is what was found.
type doctorReport struct {
	Namespace string    `json:"namespace"`
	Server    string    `json:"server"`
	Healthy   bool      `json:"healthy"` // no errors; there may be warnings
	Findings  []finding `json:"findings"`
	Looked    looked    `json:"looked_at"`
}

// looked is how much there was to look at.
type looked struct {
	Streams  *int  `json:"streams"` // of all counts nil: nobody looked
	Nodes    *int  `json:"nodes"`   // that answer
	Workers  *int  `json:"workers"`
	Queues   *int  `json:"queues"`
	Sessions *int  `json:"sessions_at_work"` // with a turn that is open, or a token
	Took     int64 `json:"took_ms"`
}

// String says how much there was, and what nobody looked at.
func (l looked) String() string {
	var there, not []string
	for _, c := range []struct {
		n         *int
		one, many string
	}{
		{l.Streams, "stream", "streams"},
		{l.Nodes, "node", "nodes"},
		{l.Workers, "worker", "workers"},
		{l.Queues, "queue", "queues"},
		{l.Sessions, "session at work", "sessions at work"},
	} {
		if c.n == nil {
			not = append(not, c.many)
		} else {
			there = append(there, render.Plural(*c.n, c.one, c.many))
		}
	}
	if len(not) > 0 {
		there = append(there, "not looked at: "+strings.Join(not, " and "))
		if len(not) > 2 {
			there[len(there)-1] = "not looked at: " + strings.Join(not[:len(not)-1], ", ") + " and " + not[len(not)-1]
		}
	}
	return strings.Join(there, ", ")
}

// Severities of findings.
const (
	severityError   = "error"   // something does not work, or is not as it has to be
	severityWarning = "warning" // something may not work soon, or could not be looked at
)

// finding is one thing that is wrong.
type finding struct {
	Severity string              `json:"severity"`
	Check    string              `json:"check"` // stable, for scripts
	Object   string              `json:"object,omitempty"`
	What     string              `json:"what"`
	Why      string              `json:"why"`
	Do       string              `json:"do"`
	Sessions []content.SessionID `json:"sessions,omitempty"` // some of them
}

// maxNamed is how many sessions a finding names.
const maxNamed = 20

func (d *doctor) found(f finding) {
	f.Sessions = f.Sessions[:min(len(f.Sessions), maxNamed)]
	d.report.Findings = append(d.report.Findings, f)
}

// look connects and examines.
func (d *doctor) look(ctx context.Context, deployment *cli.Deployment, log *zap.Logger) (doctorReport, error) {
	cell, err := deployment.Dial(ctx, "turnlog doctor", log)
	if err != nil {
		return doctorReport{}, err
	}
	defer cell.Close()
	if d.client, err = client.Open(cell.Conn, deployment.Namespace(), client.WithLogger(log)); err != nil {
		return doctorReport{}, err
	}
	d.cell, d.denied = cell, listenForDenials(cell.Conn)
	began := time.Now()
	d.report = doctorReport{Namespace: deployment.Namespace(), Server: cell.Conn.ConnectedUrlRedacted(), Findings: []finding{}}
	d.examine(ctx)
	if ctx.Err() != nil {
		return doctorReport{}, context.Cause(ctx)
	}
	d.permissions()
	d.report.Looked.Took = time.Since(began).Milliseconds()
	d.report.Healthy = d.report.count(severityError) == 0
	slices.SortStableFunc(d.report.Findings, func(a, b finding) int { return strings.Compare(a.Severity, b.Severity) })
	return d.report, nil
}

func (r doctorReport) count(severity string) (n int) {
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// examine looks at everything, as far as what it needs is there.
func (d *doctor) examine(ctx context.Context) {
	seen, err := d.cell.Inspect(ctx)
	if err != nil {
		d.found(finding{
			Severity: severityError, Check: "jetstream-off", What: err.Error(),
			Why: "everything that a deployment keeps is kept in JetStream",
			Do:  "start the server with JetStream (nats-server -js), or connect to an account that has it",
		})
		return
	}
	whole := d.streams(seen)
	d.durable(ctx, seen)
	d.serverClocks(seen)
	if !whole {
		return // the rest would only say so again
	}
	if lacking := d.cell.Unreadable(ctx); len(lacking) > 0 {
		d.unreadable(lacking)
		return
	}
	consumers := d.cell.InspectConsumers(ctx)
	d.consumers(consumers)
	work, err := d.cell.Work(ctx)
	if err != nil {
		d.blind("sessions", err)
		return
	}
	d.queues(ctx, consumers, work)
	d.sessions(ctx, consumers, work)
}

// blind says what could not be looked at.
func (d *doctor) blind(what string, err error) {
	if err == nil {
		return
	}
	d.found(finding{
		Severity: severityError, Check: "not-examined", Object: what, What: fmt.Sprintf("%s could not be looked at: %v", what, err),
		Why: "whether anything is wrong there is not known", Do: "try again; if it stays so, see what the server logs",
	})
}

// show prints the report. Errors among the findings are the exit code's.
func (r doctorReport) show(w io.Writer, format string) error {
	var err error
	if format == "json" {
		err = writeJSON(w, r)
	} else {
		err = r.print(w)
	}
	if err == nil && !r.Healthy {
		err = &cli.ExitError{Code: cli.CodeFailed}
	}
	return err
}

func (r doctorReport) print(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s", f.Severity, f.Check)
		if f.Object != "" {
			fmt.Fprintf(&b, " (%s)", render.Style{Full: true}.Line(f.Object))
		}
		fmt.Fprintf(&b, "\n  what: %s\n  why:  %s\n  do:   %s\n", render.Style{Full: true}.Line(f.What), render.Style{Full: true}.Line(f.Why), render.Style{Full: true}.Line(f.Do))
		if len(f.Sessions) > 0 {
			fmt.Fprintf(&b, "  sessions: %s\n", render.Style{Full: true}.Line(strings.Trim(fmt.Sprint(f.Sessions), "[]")))
		}
		b.WriteString("\n")
	}
	l := r.Looked
	fmt.Fprintf(&b, "%s at %s: %s, %s (%s; %d ms)\n", r.Namespace, r.Server,
		render.Plural(r.count(severityError), "error", "errors"), render.Plural(r.count(severityWarning), "warning", "warnings"), l, l.Took)
	_, err := io.WriteString(w, b.String())
	return err
}

// namespaceFlag names the cell in commands, unless it is the one that is meant anyway.
func (d *doctor) namespaceFlag() string {
	if d.report.Namespace == jetstream.DefaultNamespace {
		return ""
	}
	return " --namespace " + d.report.Namespace
}

// serverNow is the time by the server's clock, which stamps messages.
func (d *doctor) serverNow() time.Time { return time.Now().Add(d.ahead) }
