package report

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Query selects the sessions of a list and their order.
type Query struct {
	State, Agent, Model, Tool string  // "": any; all but State are patterns, where * matches any characters
	Search                    string  // in the ID or title, ignoring case
	Text                      string  // in what models see of the session, ignoring case
	Owner                     string  // "": any
	Cost                      float64 // the lowest, in the session's currency
	Sort                      string  // age, session, tokens, turns or cost
	Skip                      int     // how many to skip of those that match all but Text
	Limit                     int     // 0: none

	// May reports whether a session may be listed; nil: all may.
	May func(Summary) bool
}

// Page is one part of a list.
type Page struct {
	Sessions []Summary
	Total    int // sessions that match all but Text
	Next     int // Skip of the next part; 0: this is the last one
}

const (
	readers = 16 // how many sessions are read at once

	// mostRead is how many sessions one call searches for a text. The caller continues with the next part.
	mostRead = 256
)

// Index lists the sessions of a deployment, adds up what they used, and remembers both. It starts with what
// nodes keep in the cell (see Keep), and then reads only what has changed. The zero Index is empty. It is
// safe for concurrent use.
type Index struct {
	mu      sync.Mutex // only one list reads at a time; others use what it read
	loaded  bool       // what nodes keep was read
	rows    map[content.SessionID]indexed
	changes client.Changes
	unread  []content.SessionID // could not be read; the next list tries again

	spent ledger // has its own lock
}

type indexed struct {
	entries uint64
	row     *Summary // nil: nothing to list
}

// List lists the sessions of a deployment. It reports and skips sessions that cannot be read. It also skips
// sessions that were claimed by a driver but never started.
func (q Query) List(ctx context.Context, c *client.Client, complain func(error)) ([]Summary, error) {
	if q.Sort == "age" && q.Limit > 0 && q.Text == "" && !q.selects() {
		return q.latest(ctx, c, complain)
	}
	all, x := []Summary{}, new(Index)
	for {
		p, err := x.List(ctx, c, q, complain)
		all = append(all, p.Sessions...)
		if err != nil || p.Next == 0 || q.Limit > 0 && len(all) >= q.Limit {
			return all[:min(len(all), cmp.Or(q.Limit, len(all)))], err
		}
		q.Skip = p.Next
	}
}

// List is Query.List for one part, using what the index remembers.
func (x *Index) List(ctx context.Context, c *client.Client, q Query, complain func(error)) (Page, error) {
	rows, err := x.read(ctx, c, complain)
	if err != nil {
		return Page{}, err
	}
	listed, err := q.lists(ctx, c)
	if err != nil {
		return Page{}, err
	}
	found := rows[:0]
	for _, row := range rows {
		if row = listed(row); row != nil {
			found = append(found, row)
		}
	}
	p := Page{Total: len(found)}
	at, end := min(q.Skip, len(found)), len(found)
	if q.Text == "" && q.Limit > 0 && q.Limit < end-at {
		end = at + q.Limit
		p.Next = end
	}
	found = first(found, end, q.compare)[at:]
	p.Sessions = make([]Summary, len(found))
	for i, row := range found {
		p.Sessions[i] = *row
	}
	if q.Text != "" {
		err = q.search(ctx, c, &p, complain)
	}
	return p, err
}

// lists returns a function that completes the summary of a session. The function returns nil if the session
// is not in the list.
func (q Query) lists(ctx context.Context, c *client.Client) (func(*Summary) *Summary, error) {
	broken, err := c.SetAside(ctx)
	aside := make(map[content.SessionID]bool)
	for _, t := range broken {
		aside[t.Session] = true
	}
	return func(row *Summary) *Summary {
		if aside[row.Session] {
			changed := *row
			changed.State = StateAside
			row = &changed
		}
		if !q.wants(row) || q.May != nil && !q.May(*row) {
			return nil
		}
		return row
	}, err
}

// latest lists the sessions that changed last. It reads only those that it lists.
func (q Query) latest(ctx context.Context, c *client.Client, complain func(error)) ([]Summary, error) {
	listed, err := q.lists(ctx, c)
	if err != nil {
		return nil, err
	}
	all, some := []Summary{}, []content.SessionID{}
	add := func() error {
		rows := make([]*Summary, len(some))
		err := eachOf(ctx, c, some, complain, func(i int, state *loop.State, head journal.Head) {
			if state.Opened && state.Deleted == nil {
				rows[i] = summaryOf(state, head)
			}
		})
		some = some[:0]
		for _, row := range rows {
			if err != nil || row == nil || len(all) >= q.Limit {
				continue
			}
			row.Owner, err = opened{row.Owner, row.Parent}.owner(beginnings(ctx, c))
			if row = listed(row); row != nil {
				all = append(all, *row)
			}
		}
		return err
	}
	for id, err := range c.Latest(ctx) {
		if err != nil {
			return nil, err
		}
		if some = append(some, id); len(some) == readers {
			if err := add(); err != nil || len(all) == q.Limit {
				return all, err
			}
		}
	}
	return all, add()
}

// selects reports whether the query leaves out any sessions.
func (q Query) selects() bool {
	return q.State != "" || q.Agent != "" || q.Model != "" || q.Tool != "" || q.Search != "" || q.Owner != "" || q.Cost > 0 || q.May != nil
}

// read returns the current summaries of all sessions.
func (x *Index) read(ctx context.Context, c *client.Client, complain func(error)) ([]*Summary, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.loaded {
		err := x.load(ctx, c)
		if err != nil {
			complain(err) // without the saved list, it reads all sessions
		}
		x.loaded = err == nil || errors.Is(err, errRow)
	}
	changed, known, err := x.changes.Next(ctx, c)
	if err == nil && !known {
		changed, err = x.compare(ctx, c)
	}
	if err == nil {
		changed = append(changed, x.unread...)
		slices.Sort(changed)
		changed = slices.Compact(changed)
		for _, id := range changed {
			delete(x.rows, id)
		}
		err = eachOf(ctx, c, changed, complain, func(i int, state *loop.State, head journal.Head) {
			x.rows[changed[i]] = rowOf(state, head)
		})
	}
	if err != nil {
		x.changes = client.Changes{}
		return nil, err
	}
	x.unread = slices.DeleteFunc(changed, func(id content.SessionID) bool { _, read := x.rows[id]; return read })
	all := make([]*Summary, 0, len(x.rows))
	for _, r := range x.rows {
		if r.row != nil {
			all = append(all, x.owned(r.row))
		}
	}
	return all, nil
}

// compare returns the sessions whose length differs from the index, and removes those that are gone.
func (x *Index) compare(ctx context.Context, c *client.Client) (changed []content.SessionID, err error) {
	lengths, err := c.Lengths(ctx)
	if err != nil {
		return nil, err
	}
	if x.rows == nil {
		x.rows = make(map[content.SessionID]indexed, len(lengths))
	}
	maps.DeleteFunc(x.rows, func(id content.SessionID, r indexed) bool { return lengths[id] != r.entries })
	for id := range lengths {
		if _, known := x.rows[id]; !known {
			changed = append(changed, id)
		}
	}
	return changed, nil
}

// eachOf reads several sessions at once, and calls found for each, one at a time, with its index in ids. It
// reports and skips sessions that cannot be read.
func eachOf(ctx context.Context, c *client.Client, ids []content.SessionID, complain func(error), found func(int, *loop.State, journal.Head)) error {
	var mu sync.Mutex
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, id := range ids {
		group.Go(func() error {
			state, head, err := c.Read(within, id)
			if within.Err() != nil {
				return context.Cause(within)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				complain(err)
			} else {
				found(i, state, head)
			}
			return nil
		})
	}
	return group.Wait() //nolint:wrapcheck // of this package
}

// search keeps the sessions of a page that contain the text, up to the limit. It reads at most mostRead
// sessions.
func (q Query) search(ctx context.Context, c *client.Client, p *Page, complain func(error)) error {
	all, text := p.Sessions, strings.ToLower(q.Text)
	p.Sessions = []Summary{}
	full := func() bool { return q.Limit > 0 && len(p.Sessions) == q.Limit }
	seen := 0
	for seen < min(len(all), mostRead) && !full() {
		some := all[seen:min(seen+readers, len(all))]
		has, ids := make([]bool, len(some)), make([]content.SessionID, len(some))
		for i, row := range some {
			ids[i] = row.Session
		}
		err := eachOf(ctx, c, ids, complain, func(i int, state *loop.State, _ journal.Head) { has[i] = transcriptHas(state, text) })
		if err != nil {
			return err
		}
		for i := 0; i < len(some) && !full(); i++ {
			seen++
			if has[i] {
				p.Sessions = append(p.Sessions, some[i])
			}
		}
	}
	if seen < len(all) {
		p.Next = p.Total - len(all) + seen
	}
	return nil
}

// rowOf returns the row of a session.
func rowOf(state *loop.State, head journal.Head) indexed {
	r := indexed{entries: head.Seq}
	if state.Opened && state.Deleted == nil {
		r.row = summaryOf(state, head)
	}
	return r
}

func summaryOf(state *loop.State, head journal.Head) *Summary {
	r := Of(state, head)
	return &Summary{
		r.Session, r.State, TitleOf(state), r.Agent, r.Model, r.Changed, r.Turns, r.Usage, state.Metadata.Text(MetaOwner), r.Parent, r.From,
		state.Metadata.Text(MetaFolder), toolsOf(state),
	}
}

// mostTools limits how many names of tools are remembered for a session.
const mostTools = 100

// toolsOf returns the names of the tools called in a transcript, each followed by a newline.
func toolsOf(s *loop.State) string {
	var names []string
	for _, it := range s.Transcript {
		for _, p := range it.Parts {
			if p.Call != nil && len(names) < mostTools && !slices.Contains(names, p.Call.Name) {
				names = append(names, p.Call.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, "\n") + "\n"
}

// transcriptHas reports whether the transcript has a text. The text must be in lower case.
func transcriptHas(s *loop.State, text string) bool {
	has := func(in string) bool { return strings.Contains(strings.ToLower(in), text) }
	var said func(content.Part) bool
	said = func(p content.Part) bool {
		return has(p.Text) || has(p.Name) || p.Call != nil && (has(p.Call.Name) || has(string(p.Call.Input))) || p.Result != nil && slices.ContainsFunc(p.Result.Output, said)
	}
	return slices.ContainsFunc(s.Transcript, func(it content.Item) bool { return slices.ContainsFunc(it.Parts, said) })
}

// wants reports whether the query selects a session, apart from Text.
func (q Query) wants(s *Summary) bool {
	text := ""
	if q.Search != "" {
		text = strings.ToLower(string(s.Session) + "\n" + s.Title)
	}
	return (q.State == "" || q.State == s.State) && (q.Owner == "" || q.Owner == s.Owner) && (q.Agent == "" || content.Matches(q.Agent, s.AgentName())) &&
		(q.Model == "" || content.Matches(q.Model, s.Model)) && (q.Tool == "" || s.uses(q.Tool)) &&
		float64(s.Usage.CostMicros) >= q.Cost*microsPerUnit && strings.Contains(text, strings.ToLower(q.Search))
}

// uses reports whether the transcript has a call of a tool that matches a pattern.
func (s *Summary) uses(pattern string) bool {
	for name := range strings.Lines(s.tools) {
		if content.Matches(pattern, strings.TrimSuffix(name, "\n")) {
			return true
		}
	}
	return false
}

// first returns the n first rows of an order. It sorts only about as many.
func first(rows []*Summary, n int, compare func(a, b *Summary) int) []*Summary {
	if n > len(rows)/4 {
		slices.SortFunc(rows, compare)
		return rows[:n]
	}
	least := make([]*Summary, 0, 2*n+1)
	var last *Summary // of n rows that are known; nil: they are fewer
	for _, row := range rows {
		if last != nil && compare(row, last) > 0 {
			continue
		}
		if least = append(least, row); len(least) > 2*n {
			slices.SortFunc(least, compare)
			least = least[:n]
			last = least[n-1]
		}
	}
	slices.SortFunc(least, compare)
	return least[:n]
}

const microsPerUnit = 1e6 // of a currency

func (q Query) compare(a, b *Summary) int {
	order := 0
	switch q.Sort {
	case "age":
		order = cmp.Compare(b.Changed, a.Changed)
	case "tokens":
		order = cmp.Compare(b.Tokens(), a.Tokens())
	case "turns":
		order = cmp.Compare(b.Turns, a.Turns)
	case "cost":
		order = cmp.Compare(b.Usage.CostMicros, a.Usage.CostMicros)
	}
	return cmp.Or(order, cmp.Compare(a.Session, b.Session))
}
