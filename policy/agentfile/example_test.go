package agentfile_test

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
)

func ExampleDefinition_Agent() {
	ctx := context.Background()
	d, err := agentfile.Load("testdata/greeter.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg, err := d.Agent(ctx, agentfile.Kit{
		// A real program passes registry.New(os.Getenv).Open.
		Models: func(name string, _ []byte) (model.Model, error) {
			return scripted.Parse(name, []byte("replies: [{text: Hello.}]"))
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := agent.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := s.RunText(ctx, "Good morning!")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Messages()[0].Text(), res.Response)
	// Output: Greet everybody. Hello.
}
