package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/wire"
)

// Day is a day in UTC, like 2026-11-28. "": before all known days.
type Day string

// DayOf returns the day of a time.
func DayOf(t time.Time) Day { return Day(t.UTC().Format(time.DateOnly)) }

// Period is a range of days, including both ends. "": no limit. What has no known day counts only in a period
// without From.
type Period struct{ From, To Day }

func (p Period) has(d Day) bool { return d >= p.From && (p.To == "" || d <= p.To) }

// Used is what sessions have used, and how many they are.
type Used struct {
	Sessions int   `json:"sessions" doc:"that had turns or used something"`
	Turns    int   `json:"turns" doc:"that began"`
	Usage    Usage `json:"usage"`
}

// Share is what the sessions of one model, agent and owner have used. What a session used before it switched
// models counts for the earlier model.
type Share struct {
	Model string `json:"model"`
	Agent string `json:"agent,omitempty"`
	Owner string `json:"owner,omitempty" doc:"who opened the session, or the one that it works for"`
	Used
}

// DayUse is what all sessions have used on a day.
type DayUse struct {
	Day Day `json:"day,omitempty" doc:"in UTC, like 2026-11-28; absent: before the days that are known of a session"`
	Used
}

// Spending is what sessions have used in a period. A session does not include its sub-agents, whose sessions
// count separately. Deleted sessions do not count.
type Spending struct {
	Usage []Share  `json:"usage"`
	Days  []DayUse `json:"days" doc:"the latest first; one for each currency"`
}

// Usage adds up what sessions used, if may allows them; nil allows all. The first call reads what nodes keep
// of all sessions, or their journals. Later calls read only what is new. A call that is canceled has still
// read some of it.
func (x *Index) Usage(ctx context.Context, c *client.Client, in Period, may func(Summary) bool, complain func(error)) (Spending, error) {
	rows, err := x.read(ctx, c, complain)
	if err != nil {
		return Spending{}, err
	}
	x.spent.mu.Lock()
	defer x.spent.mu.Unlock()
	if err := x.spent.read(ctx, c); err != nil {
		return Spending{}, err
	}
	currency, shares, days := x.spent.currency(), make(sums[[4]string]), make(sums[[2]string])
	for _, row := range rows {
		a := x.spent.of[row.Session]
		if a == nil || may != nil && !may(*row) {
			continue
		}
		agent := ""
		if row.Agent != nil {
			agent = row.Agent.Name
		}
		for _, s := range a.Spent {
			if in.has(s.Day) {
				money := cmp.Or(s.Usage.Currency, currency) // so that usage without a cost has no row of its own
				shares.add(row.Session, [4]string{s.Model, agent, row.Owner, money}, s)
				days.add(row.Session, [2]string{string(s.Day), money}, s)
			}
		}
	}
	out := Spending{Usage: []Share{}, Days: []DayUse{}}
	for k, sum := range shares {
		out.Usage = append(out.Usage, Share{k[0], k[1], k[2], sum.Used})
	}
	for k, sum := range days {
		out.Days = append(out.Days, DayUse{Day(k[0]), sum.Used})
	}
	slices.SortFunc(out.Usage, func(a, b Share) int {
		return cmp.Or(strings.Compare(a.Model, b.Model), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Owner, b.Owner), strings.Compare(a.Usage.Currency, b.Usage.Currency))
	})
	slices.SortFunc(out.Days, func(a, b DayUse) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), strings.Compare(a.Usage.Currency, b.Usage.Currency))
	})
	return out, nil
}

// sums adds up usage by a key. All usage of a session must be added before the next session's.
type sums[K comparable] map[K]sum

type sum struct {
	Used

	last content.SessionID
}

func (m sums[K]) add(s content.SessionID, k K, v spent) {
	now := m[k]
	if now.last != s {
		now.last = s
		now.Sessions++
	}
	now.Turns += v.Turns
	now.Usage = Usage(content.Usage(now.Usage).Add(v.Usage))
	m[k] = now
}

// ledger remembers what sessions used, according to their entries.
type ledger struct {
	mu sync.Mutex // only one call reads at a time

	at   client.Changes // how far the journal was read
	of   map[content.SessionID]*account
	kept [][]byte // rows with the accounts, until they are needed
}

// currency returns the one currency of all costs, or "" if there are several.
func (l *ledger) currency() (one string) {
	for _, a := range l.of {
		for _, s := range a.Spent {
			if s.Usage.Currency != "" && one != "" && s.Usage.Currency != one {
				return ""
			}
			one = cmp.Or(s.Usage.Currency, one)
		}
	}
	return one
}

// account is what one session used, or what a part of its journal adds to that.
type account struct {
	Seq     uint64  `msgpack:"s"`           // the last entry counted
	Model   string  `msgpack:"m,omitempty"` // the current one; "" in a part: unchanged
	Spent   []spent `msgpack:"u,omitempty"`
	Fresh   bool    `msgpack:"f,omitempty"` // replaces all earlier parts
	Partial bool    `msgpack:"p,omitempty"` // some entries could not be read
}

// spent is what a session used on one day with one model, in one currency.
type spent struct {
	Day   Day           `msgpack:"d,omitempty"`
	Model string        `msgpack:"m,omitempty"`
	Turns int           `msgpack:"t,omitempty"`
	Usage content.Usage `msgpack:"u"`
}

// mostSpent limits how many days are remembered for a session. The latest are kept, and earlier ones are
// merged into one without a day.
const mostSpent = 400

// read counts the entries that are new since the last call.
func (l *ledger) read(ctx context.Context, c *client.Client) error {
	same, err := l.at.Hold(ctx, c)
	if err != nil {
		return err
	}
	if l.kept != nil && same {
		if l.of, err = accountsOf(l.kept); err != nil {
			l.of = nil // the rows cannot be used
		}
		for id, a := range l.of {
			if a.Partial {
				if err := a.again(ctx, c, id, a.Seq); err != nil {
					return err
				}
			}
		}
	}
	l.kept = nil
	if !same || l.of == nil {
		l.at, l.of = client.Changes{}, make(map[content.SessionID]*account)
	}
	for rec, err := range l.at.Entries(ctx, c) {
		if err == nil && rec.Err == nil {
			err = l.count(ctx, c, rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// count counts an entry. If an entry with that number was already counted, the session went back, as a
// restore does, so its journal is read again.
func (l *ledger) count(ctx context.Context, c *client.Client, rec journal.Record) error {
	id := rec.Entry.Session
	if _, deleted := events.DeletionOf(rec.Entry); deleted {
		delete(l.of, id)
		return nil
	}
	a := l.of[id]
	if a == nil {
		a = new(account)
		l.of[id] = a
	}
	if rec.Seq > a.Seq {
		a.count(rec.Entry)
		return nil
	}
	return a.again(ctx, c, id, rec.Seq)
}

// again counts a session from its start through an entry.
func (a *account) again(ctx context.Context, c *client.Client, id content.SessionID, through uint64) error {
	var again account
	for rec, err := range c.Records(ctx, id, 0) {
		if err != nil && !errors.Is(err, journal.ErrDamaged) {
			return err
		}
		if err != nil || rec.Seq > through {
			break
		}
		if rec.Err == nil {
			again.count(rec.Entry)
		}
	}
	*a = again
	return nil
}

// encode returns the account for a page.
func (a *account) encode() string {
	if a == nil {
		return ""
	}
	text, err := wire.Marshal(a, wire.Command)
	if err != nil {
		return "" // it has no value without an encoding
	}
	return string(text)
}

// accountsOf adds up the accounts in the rows of pages.
func accountsOf(rows [][]byte) (map[content.SessionID]*account, error) {
	of := make(map[content.SessionID]*account)
	var bad error
	err := each(rows, func(r keptRow) {
		if r.spent == "" {
			return
		}
		var part account
		if err := wire.Unmarshal([]byte(r.spent), wire.Command, &part); err != nil {
			bad = err
			return
		}
		if a := of[r.Session]; a != nil && !part.Fresh {
			a.plus(part)
			return
		}
		part.Fresh = false
		of[content.SessionID(strings.Clone(string(r.Session)))] = &part // cloned, or it would keep the whole page in memory
	})
	if bad != nil {
		err = fmt.Errorf("%w: %w", errRow, bad)
	}
	return of, err
}

// plus adds the account of later entries.
func (a *account) plus(part account) {
	for _, s := range part.Spent {
		s.Model = cmp.Or(s.Model, a.Model)
		a.spend(s)
	}
	a.Seq, a.Model, a.Partial = part.Seq, cmp.Or(part.Model, a.Model), a.Partial || part.Partial
}

func (a *account) count(e events.Entry) {
	a.Seq = e.Seq
	for _, ev := range e.Events {
		switch ev := any(ev).(type) {
		case events.RunStarted:
			a.Model = ev.Config.Model
		case events.ConfigChanged:
			a.Model = ev.Config.Model
		case events.ModelSwitched:
			a.Model = ev.Model
		case events.TurnStarted:
			a.add(e.At, 1, content.Usage{})
		case events.UsageUpdated:
			if own := ev.Own(); own != (content.Usage{}) {
				a.add(e.At, 0, own)
			}
		}
	}
}

func (a *account) add(at content.Time, turns int, u content.Usage) {
	a.spend(spent{DayOf(at.Std()), a.Model, turns, u})
}

func (a *account) spend(s spent) {
	i := slices.IndexFunc(a.Spent, s.fits)
	if i < 0 {
		a.Spent = append(a.Spent, s)
		a.forget()
		return
	}
	a.Spent[i].join(s)
}

// fits reports whether both have the same day, model and currency.
func (s spent) fits(o spent) bool { return s.Day == o.Day && s.Model == o.Model && s.adds(o) }

// adds reports whether the currencies allow adding the two.
func (s spent) adds(o spent) bool {
	return s.Usage.Currency == o.Usage.Currency || s.Usage.Currency == "" || o.Usage.Currency == ""
}

func (s *spent) join(o spent) {
	s.Turns += o.Turns
	s.Usage = s.Usage.Add(o.Usage)
}

// forget merges the earliest days if there are too many.
func (a *account) forget() {
	if len(a.Spent) <= mostSpent {
		return
	}
	first := a.Spent[0]
	first.Day = ""
	if i := slices.IndexFunc(a.Spent[1:], first.adds); i >= 0 {
		o := a.Spent[1+i]
		if first.join(o); first.Model != o.Model {
			first.Model = ""
		}
		a.Spent = slices.Delete(a.Spent, 1+i, 2+i)
	}
	a.Spent[0] = first
}
