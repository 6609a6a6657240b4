package loop

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// advance carries the session on until an effect is owed or it must wait.
func (d *decision) advance() {
	for d.step() {
	}
}

// step does what the session's position asks for without the outside world, and
// reports whether it moved.
func (d *decision) step() bool {
	p, hook := d.where()
	switch p {
	case atNothing, atInput, atPlanning, atMutator, atModel, atStopping, atRetry, atApproval, atWaitTools, atVerify, atReport:
		return false
	case atHooks:
		return d.answered(hook)
	case atStart:
		return (d.Task != nil || d.passes()) && d.start()
	case atAfterTurn:
		d.startMutator(pointAfterTurn, d.After)
	case atMutate:
		point := pointBeforeModel
		if d.Turn.Stage == StageReplied {
			point = pointAfterTool
		}
		d.startMutator(point, d.Turn.Mut)
	case atTop:
		d.top()
	case atYield:
		return d.boundary()
	case atCall:
		if !d.limited(d.overRequests()) { // the limits may be others than at the top
			d.callModel(1)
		}
	case atDeadTail:
		d.turnEnd(content.Completed)
	case atReply:
		d.afterReply()
	case atPreflight:
		return d.gates()
	case atHeld:
		return d.passes() && d.dispatch()
	case atTools:
		return d.dispatch()
	case atFailedTool:
		d.failTurn()
	case atRoundEnd:
		d.emit(events.RoundFinished{Turn: d.Turn.ID, Round: d.Turn.Round, TranscriptLen: len(d.Transcript)})
	}
	return true
}

// passes reports whether the session may pass a wait of stepped sessions; Continue
// pays for one.
func (d *decision) passes() bool {
	if d.Stepped && !d.pass {
		return false
	}
	d.pass = false
	return true
}

// start opens a turn with what is queued: input first, else notifications; after a
// merge of input that left notifications waiting, those first.
func (d *decision) start() bool {
	if d.startsTask() {
		return true
	}
	d.startTurn()
	return true
}

// startTurn opens a turn: a task's with its goal alone, any other with what is
// queued.
func (d *decision) startTurn() {
	m := d.merge(false)
	if d.Task != nil {
		m = d.goal()
	}
	id := content.TurnIDFor(d.Turns + 1)
	d.emit(
		events.InputAccepted{Turn: id, Items: m.items, Origin: m.origin},
		events.TurnStarted{Turn: id, Trigger: m.origin, Options: d.within(m.options)},
	)
}

// merged is what one merge takes.
type merged struct {
	items   []content.Item
	origin  events.Origin
	options *events.TurnOptions
}

func (d *decision) merge(steering bool) merged {
	var m merged
	for _, q := range d.Queue {
		if !joins(q, steering) {
			continue
		}
		if len(m.items) == 0 {
			m.origin = q.Origin
		}
		m.items = append(m.items, q.Items...)
		m.options = narrowed(m.options, q.Options)
	}
	if len(d.Notices) > 0 && (len(m.items) == 0 || d.NoticesFirst) {
		m = merged{origin: events.FromNotification}
		for _, n := range d.Notices {
			m.items = append(m.items, n.Item)
		}
	}
	return m
}

// boundary passes a complete round: what was queued joins, then the next round
// may start. A stepped session yields here, but not after a provider's compaction.
func (d *decision) boundary() bool {
	if d.Turn.Reply != content.Compaction && !d.passes() {
		return false
	}
	d.steer()
	d.top()
	return true
}

// steer merges what joins an open turn. Its options hold for the rest of the turn,
// beside those that hold already.
func (d *decision) steer() {
	m := d.merge(true)
	if len(m.items) == 0 {
		return
	}
	ev := events.InputAccepted{Turn: d.Turn.ID, Items: m.items, Origin: m.origin}
	if m.options != nil {
		ev.Options = narrowed(d.Turn.Options, d.within(m.options))
	}
	d.emit(ev)
}

// top starts a round, if the limits allow one.
func (d *decision) top() {
	if d.limited(d.overAtTop()) {
		return
	}
	d.emit(events.RoundStarted{Turn: d.Turn.ID, Round: d.Turn.Round + 1, Catalog: d.catalogDigest()})
}

// catalogDigest is the digest that the next request will have.
func (d *decision) catalogDigest() string {
	if d.env.Catalog != nil {
		return d.env.Catalog.Digest
	}
	return d.Catalog.Digest
}

// callModel records that the model is about to be called, after the changes of
// the catalog that its request shows.
func (d *decision) callModel(attempt int) {
	t := d.Turn
	if attempt == 1 && d.env.Catalog != nil {
		for _, change := range catalogChanges(d.Catalog, *d.env.Catalog) {
			d.emit(change)
		}
	}
	cache := t.Cache
	if attempt == 1 {
		cache = d.Config.Cache
		if d.CacheOverride != nil {
			cache = d.CacheOverride
		}
	}
	d.emit(events.ModelCallStarted{
		Turn: t.ID, Round: t.Round, Attempt: attempt,
		TranscriptLen: len(d.Transcript), Catalog: d.Catalog.Digest, Cache: cache,
	})
}

// catalogChanges lists what changed, a source at a time in order of registration.
func catalogChanges(old, now events.Catalog) []events.ToolCatalogChanged {
	if old.Digest == now.Digest {
		return nil
	}
	var out []events.ToolCatalogChanged
	diff := func(name string, before, after []events.ToolRef) {
		c := events.ToolCatalogChanged{Source: name, Digest: now.Digest}
		for _, t := range after {
			i := indexTool(before, t.Name)
			switch {
			case i < 0:
				c.Added = append(c.Added, t)
			case before[i].Digest != t.Digest:
				c.Changed = append(c.Changed, t)
			}
		}
		for _, t := range before {
			if indexTool(after, t.Name) < 0 {
				c.Removed = append(c.Removed, t.Name)
			}
		}
		if len(c.Added)+len(c.Changed)+len(c.Removed) > 0 {
			out = append(out, c)
		}
	}
	for _, src := range now.Sources {
		diff(src.Name, sourceTools(old, src.Name), src.Tools)
	}
	for _, src := range old.Sources {
		if !slices.ContainsFunc(now.Sources, func(s events.CatalogSource) bool { return s.Name == src.Name }) {
			diff(src.Name, src.Tools, nil)
		}
	}
	return out
}

func indexTool(tools []events.ToolRef, name string) int {
	return slices.IndexFunc(tools, func(t events.ToolRef) bool { return t.Name == name })
}

func sourceTools(c events.Catalog, name string) []events.ToolRef {
	for _, s := range c.Sources {
		if s.Name == name {
			return s.Tools
		}
	}
	return nil
}

// afterReply lets a reply that runs no tools decide: on after a compaction, else
// the turn ends.
func (d *decision) afterReply() {
	t := d.Turn
	if d.cancelled() || d.limited(d.overAfterReply()) {
		return
	}
	for _, c := range t.Calls {
		if !c.Answered() {
			d.emitResult(c, content.StatusNotExecuted, "", "Not run: the reply ended with "+string(t.Reply), false)
		}
	}
	if t.Reply == content.Compaction {
		d.emit(events.RoundFinished{Turn: t.ID, Round: t.Round, TranscriptLen: len(d.Transcript)})
		return
	}
	if t.Reply == content.ToolCalls {
		d.warn("empty_tool_call", "the reply ended with tool_call but holds no call", "")
		d.turnEnd(content.Completed)
		return
	}
	if t.Invalid != "" {
		d.repair()
		return
	}
	d.turnEnd(t.Reply)
}

// defaultRepairs is how often an answer may be corrected.
const defaultRepairs = 2

// repair lets the model correct an answer that does not fit the session's schema, or
// ends the turn.
func (d *decision) repair() {
	t := d.Turn
	allowed := defaultRepairs
	if o := d.Config.Output; o != nil {
		allowed = orDefault(o.Repairs, defaultRepairs)
	}
	if t.Repairs >= allowed {
		d.finish(ending{reason: content.Errored, failure: &events.RunFailed{Turn: t.ID, Code: "invalid_output", Message: t.Invalid}})
		return
	}
	text := "The answer does not fit the required schema. Answer again, with nothing but JSON that does:\n" + t.Invalid
	d.emit(
		events.RoundFinished{Turn: t.ID, Round: t.Round, TranscriptLen: len(d.Transcript)},
		events.InputAccepted{Turn: t.ID, Items: []content.Item{content.UserText(text)}, Origin: events.FromSchema},
	)
	d.steer()
}

// cancelled closes the turn if a cancel came before the report that just arrived.
func (d *decision) cancelled() bool {
	if d.Turn.Cancel == nil {
		return false
	}
	d.finish(ending{reason: content.Cancelled})
	return true
}

func (d *decision) startMutator(point string, m Mutating) {
	if m.Point != point {
		m = Mutating{Point: point}
	}
	name := d.Config.Mutators[d.mutatorAt(m)].Name
	d.emit(events.MutationStarted{Turn: d.lastTurn(), Mutator: name, Point: point})
}

func (d *decision) lastTurn() content.TurnID {
	if d.Turn != nil {
		return d.Turn.ID
	}
	return d.Last.Turn
}

// answered uses a hook answer that came with the report, if there is one.
func (d *decision) answered(h owedHook) bool {
	for i, a := range d.answers {
		if a.Point == h.point && a.Call == h.call {
			d.answers = slices.Delete(d.answers, i, i+1)
			d.takeHook(a)
			return true
		}
	}
	return false
}

func (d *decision) waiting() commands.Wait { return Waiting(&d.State) }
