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

func TestARunReturnsTheAnswersThatDoNotFitTheSchema(t *testing.T) {
	t.Parallel()
	m := modeltest.NewFake("m", func(_ context.Context, r model.Request) (model.Reply, error) {
		if string(r.Schema) != citySchema {
			t.Errorf("the request's schema is %s", r.Schema)
		}
		return modeltest.Text(`{"city":"Rome"} or so`), nil
	})
	d := start(t, agent.Config{Model: m, Output: &events.Output{Schema: json.RawMessage(citySchema)}})
	_, err := d.RunText(t.Context(), "Which city?")
	if e, ok := errors.AsType[*session.OutputError](err); !ok || len(e.Partial.Turn.Items) != 3 {
		t.Errorf("Run = %v, want the answers of three rounds", err)
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
