package report

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/audit/explain"
	"github.com/turnlog/turnlog/client/seek"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Explain returns everything the journal says about the call with that name, as explain.CallReader does. It
// reads the entry that opened the session, and continues from a turn before the call's. It reads all entries
// only if it must: if a policy ever applied, or if the name is a provider's ID.
func (c Calls) Explain(ctx context.Context, name string) (explain.Call, error) {
	turn, round, ok := c.roundOf(content.CallID(name))
	if ok && round > 0 && turn <= c.State.Turns && c.State.Policy.Digest == "" {
		for back := 1; back < turn; back *= 4 {
			reader := explain.NewCallReader(name)
			began, err := c.explainFrom(ctx, reader, name, turn-back)
			if err != nil {
				return explain.Call{}, err
			}
			call, err := reader.Call()
			if !began || err != nil {
				break
			}
			if reader.Whole() {
				return call, nil
			}
		}
	}
	reader := explain.NewCallReader(name)
	if err := c.explainOn(ctx, reader, name, journal.Head{}); err != nil {
		return explain.Call{}, err
	}
	return reader.Call()
}

// explainFrom reads the opening of the session, and then the entries from a turn on. It returns false if that
// is not enough.
func (c Calls) explainFrom(ctx context.Context, reader *explain.CallReader, name string, turn int) (bool, error) {
	start, err := seek.Turn(ctx, c.From, c.State.Session, c.Head, turn)
	if err != nil {
		return false, fmt.Errorf("session %s, turn %d: %w", c.State.Session, turn, err)
	}
	claim, err := seek.Claim(ctx, c.From, c.State.Session, c.Head, start.Entry.Epoch)
	if err != nil {
		return false, fmt.Errorf("session %s, epoch %d: %w", c.State.Session, start.Entry.Epoch, err)
	}
	agent := ""
	for rec, err := range c.From.RecordsFrom(ctx, c.State.Session, journal.Head{}) {
		if err == nil {
			err = reader.Add(rec)
		}
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(rec.Entry.Events, func(ev events.Event) bool { _, opens := ev.(events.RunStarted); return opens })
		if i < 0 {
			continue
		}
		if opened := rec.Entry.Events[i].(events.RunStarted); opened.Config.Agent != nil {
			agent = opened.Config.Agent.Name
		}
		if rec.Seq >= start.Seq {
			return false, nil
		}
		break
	}
	if now := c.State.Config.Agent; agent != "" && (now == nil || now.Name != agent) || agent == "" && now != nil {
		return false, nil
	}
	allowed := map[content.ApprovalID][]string{}
	for _, a := range c.State.Allowed {
		allowed[a.Grant] = a.Tools
	}
	reader.Resume(claim, allowed)
	return true, c.explainOn(ctx, reader, name, seek.Before(start))
}

// explainOn reads on until no later entry can say more about the call.
func (c Calls) explainOn(ctx context.Context, reader *explain.CallReader, name string, at journal.Head) error {
	compacted := func(it content.Item) bool { return it.FinishReason == content.Compaction }
	kept := c.State.Rewritten == 0 && !slices.ContainsFunc(c.State.Transcript, compacted) // the models see all results
	var failed error
	err := c.readFrom(ctx, at, func(h *history, rec journal.Record) bool {
		if failed = reader.Add(rec); failed != nil || !kept {
			return failed != nil
		}
		call := h.find(content.CallID(name))
		return call != nil && h.complete(call) && h.past(call.Turn.Number(), call.Round) && reader.Seen()
	})
	if failed != nil {
		return failed
	}
	return err
}
