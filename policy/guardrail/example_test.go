package guardrail_test

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/guardrail"
)

// The model sees no long texts and no keys.
func Example() {
	if err := ask(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// You said: hello there.
	// terminated by hook guardrail at pre_llm_call: keys: matches \bsk-\w+
}

func ask(ctx context.Context) error {
	keys, err := guardrail.Deny("keys", `\bsk-\w+`)
	if err != nil {
		return err
	}
	guard, err := guardrail.New(guardrail.Config{Input: []guardrail.Check{guardrail.MaxLength(1000), keys}})
	if err != nil {
		return err
	}
	m, err := scripted.Parse("parrot", []byte("replies:\n  - text: 'You said: {{.Prompt}}.'\n    repeat: true\n"))
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{Model: m, Hooks: []extension.Hook{guard}})
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		return err
	}
	res, err := d.RunText(ctx, "hello there")
	if err != nil {
		return err
	}
	fmt.Println(res.Response)
	_, err = d.RunText(ctx, "my key is sk-123")
	return err
}
