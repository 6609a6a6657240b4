package looptest

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func offersOf(t testing.TB, st statement) *events.Catalog {
	t.Helper()
	if st.arg(0)+st.json == "" {
		return nil
	}
	c := &events.Catalog{Digest: st.arg(0)}
	if st.json != "" {
		if err := json.Unmarshal([]byte(st.json), c); err != nil {
			t.Fatalf("%s: %v", st, err)
		}
	}
	for _, l := range st.lines {
		src := events.CatalogSource{Name: l.verb}
		for _, p := range l.pos {
			name, digest, _ := strings.Cut(p, "@")
			src.Tools = append(src.Tools, events.ToolRef{Name: name, Digest: digest})
		}
		c.Sources = append(c.Sources, src)
	}
	return c
}

// policyOf is a policy with a digest and one list of rules.
func policyOf(st statement) *events.Policy {
	p := &events.Policy{Digest: st.arg(0)}
	for _, l := range st.of("rule") {
		if p.Rules == nil {
			p.Rules = make([][]events.Rule, 1)
		}
		p.Rules[0] = append(p.Rules[0], events.Rule{Tool: l.arg(0), Action: events.Action(l.arg(1)), Queue: l.opt["queue"]})
	}
	return p
}

func configOf(t testing.TB, st statement) events.Config {
	t.Helper()
	cfg := events.Config{
		MaxParallel: st.number(t, "parallel"), FailRun: st.has("failrun"), NotifyOnly: st.has("notify"),
		Limits: limitsOf(t, st, ""), SessionLimits: limitsOf(t, st, "session."), ApprovalTTL: st.duration(t, "ttl"),
		Retry: events.Retry{
			ModelAttempts: st.number(t, "model_attempts"), ToolAttempts: st.number(t, "tool_attempts"),
			LostAttempts: st.number(t, "lost_attempts"), Backoff: st.duration(t, "backoff"), MaxBackoff: st.duration(t, "max_backoff"),
			ModelPatience: st.duration(t, "model_patience"), AskLost: st.has("asklost"),
		},
	}
	if schema := st.opt["schema"]; schema != "" {
		cfg.Output = &events.Output{Schema: []byte(schema), Repairs: st.number(t, "repairs")}
	}
	if mode := st.opt["cache"]; mode != "" {
		cfg.Cache = &content.CacheRequest{Mode: mode}
	}
	for _, l := range st.of("rule") {
		cfg.Rules = append(cfg.Rules, events.Rule{Tool: l.arg(0), Action: events.Action(l.arg(1))})
	}
	for _, l := range st.of("hook") {
		cfg.Hooks = append(cfg.Hooks, events.Registration{Name: l.arg(0), Points: l.pos[1:]})
	}
	for _, l := range st.of("mutator") {
		cfg.Mutators = append(cfg.Mutators, events.Registration{Name: l.arg(0), Points: l.pos[1:]})
	}
	return cfg
}

func limitsOf(t testing.TB, st statement, scope string) events.Limits {
	t.Helper()
	n := func(name string) int64 { return int64(st.number(t, scope+name)) }
	return events.Limits{
		MaxRounds: n("max_rounds"), Requests: n("requests"), InputTokens: n("input_tokens"), OutputTokens: n("output_tokens"),
		TotalTokens: n("total_tokens"), ToolCalls: n("tool_calls"), CostMicros: n("cost"), WallClock: st.duration(t, scope+"wall_clock"),
	}
}

func optionsOf(t testing.TB, st statement) *events.TurnOptions {
	t.Helper()
	o := &events.TurnOptions{Sequential: st.has("sequential")}
	if l := limitsOf(t, st, ""); l != (events.Limits{}) {
		o.Limits = &l
	}
	var rules []events.Rule
	for _, a := range []events.Action{events.RuleAllow, events.RuleAsk, events.RuleDeny} {
		for _, pattern := range list(st.opt[string(a)]) {
			rules = append(rules, events.Rule{Tool: pattern, Action: a})
		}
	}
	if rules != nil {
		o.Rules = [][]events.Rule{rules}
	}
	for _, route := range list(st.opt["route"]) {
		pattern, name, _ := strings.Cut(route, ":")
		o.Routes = append(o.Routes, events.RouteRule{Tool: pattern, Route: content.Route(name)})
	}
	if o.Limits == nil && !o.Sequential && o.Rules == nil && o.Routes == nil {
		return nil
	}
	return o
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func def(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (st statement) usage(t testing.TB) content.Usage {
	t.Helper()
	return content.Usage{
		InputTokens: int64(st.number(t, "in")), OutputTokens: int64(st.number(t, "out")), CostMicros: int64(st.number(t, "cost")),
	}
}

func (st statement) answers() []commands.HookAnswer {
	var out []commands.HookAnswer
	for _, l := range st.of("answer") {
		out = append(out, answerOf(l))
	}
	return out
}

func (st statement) items(t testing.TB, verb string) []content.Item {
	t.Helper()
	var out []content.Item
	for _, l := range st.of(verb) {
		out = append(out, itemOf(t, statement{verb: l.arg(0), pos: l.pos[1:], opt: l.opt}))
	}
	return out
}

// itemOf reads KIND "text", or KIND call=ID, or KIND result=ID status=STATUS.
func itemOf(t testing.TB, l statement) content.Item {
	t.Helper()
	it := content.Item{ID: content.ItemID(l.opt["id"]), Kind: content.Kind(l.verb)}
	for _, text := range l.pos {
		it.Parts = append(it.Parts, content.TextPart(text))
	}
	for _, id := range list(l.opt["call"]) {
		it.Parts = append(it.Parts, content.CallPart(content.ToolCall{ID: content.CallID(id), Name: "x"}))
	}
	for _, id := range list(l.opt["result"]) {
		status := cmp.Or(content.Status(l.opt["status"]), content.StatusOK)
		it.Parts = append(it.Parts, content.ResultPart(content.NewResult(content.CallID(id), "x", status, "r")))
	}
	return it
}

func (st statement) number(t testing.TB, key string) int {
	t.Helper()
	if st.opt[key] == "" {
		return 0
	}
	n, err := strconv.Atoi(st.opt[key])
	if err != nil {
		t.Fatalf("%s: %s: %v", st, key, err)
	}
	return n
}

func (st statement) duration(t testing.TB, key any) time.Duration {
	t.Helper()
	text := ""
	switch k := key.(type) {
	case int:
		text = st.arg(k)
	case string:
		text = st.opt[k]
	}
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	return d
}
