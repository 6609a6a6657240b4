package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
)

const citySchema = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`

func TestAnswersMustFitTheSchema(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []string
		repairs int
		rounds  int
		fails   bool
	}{
		"at once":        {answers: []string{` {"city":"Rome"} `}, rounds: 1},
		"after a repair": {answers: []string{"Rome", `{"city":7}`, `{"city":"Rome"}`}, rounds: 3},
		"never":          {answers: []string{`{"city":"Rome"} or so`}, rounds: 3, fails: true},
		"no repairs":     {answers: []string{"[]"}, repairs: -1, rounds: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			m := modeltest.NewFake("m", func(_ context.Context, r model.Request) (model.Reply, error) {
				if string(r.Schema) != citySchema {
					t.Errorf("the request's schema is %s", r.Schema)
				}
				n++
				return modeltest.Text(tc.answers[min(n, len(tc.answers))-1]), nil
			})
			d := start(t, agent.Config{Model: m, Output: &events.Output{Schema: json.RawMessage(citySchema), Repairs: tc.repairs}})
			res, err := d.RunText(t.Context(), "Which city?")
			e, failed := errors.AsType[*session.OutputError](err)
			if failed != tc.fails || n != tc.rounds {
				t.Fatalf("after %d rounds: %v", n, err)
			}
			if failed {
				res = e.Partial
			}
			if len(res.Turn.Items) != tc.rounds {
				t.Errorf("%d answers", len(res.Turn.Items))
			}
			if again, err := d.RunText(t.Context(), "Once more."); !failed && err != nil {
				t.Errorf("the second turn = %+v, %v", again, err)
			}
		})
	}
}

func TestOnlyFinalAnswersMustFitTheSchema(t *testing.T) {
	t.Parallel()
	cut := modeltest.Text("{")
	cut.FinishReason = content.MaxTokens
	d := start(t, agent.Config{Model: replies(cut), Output: &events.Output{Schema: json.RawMessage(citySchema)}})
	if res, err := d.RunText(t.Context(), "Which city?"); err != nil || res.Turn.FinishReason != content.MaxTokens {
		t.Errorf("result = %+v, %v", res, err)
	}
	structured := model.Reply{Items: []content.Item{content.NewItem(content.Assistant, content.StructuredPart(json.RawMessage(`{"city":"Rome"}`)))}}
	d = start(t, agent.Config{Model: replies(structured), Output: &events.Output{Schema: json.RawMessage(citySchema)}})
	if res, err := d.RunText(t.Context(), "Which city?"); err != nil || res.Turns != 1 {
		t.Errorf("a structured part = %+v, %v", res, err)
	}
	_, err := agent.New(agent.Config{Model: replies(cut), Output: &events.Output{Schema: json.RawMessage(`{"type":3}`)}})
	if e, ok := errors.AsType[*agent.ConfigError](err); !ok || e.Field != "Output" {
		t.Errorf("New with a broken schema = %v", err)
	}
}
