package agent_test

import (
	"context"
	"fmt"
	"log"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
)

// A tool is a Go function; an agent is a model with tools.
func Example() {
	type city struct {
		City string `json:"city"`
	}
	weather, err := tool.Func("weather", "The weather in a city.", func(_ context.Context, in city) (string, error) {
		return "sunny in " + in.City, nil
	}, tool.ReadOnly())
	if err != nil {
		log.Fatal(err)
	}
	tools, err := tool.NewRegistry("demo", weather)
	if err != nil {
		log.Fatal(err)
	}
	m, err := scripted.Parse("demo", []byte(`
replies:
  - calls: [{name: weather, input: {city: Tokyo}}]
  - text: "It is {{(index .Results 0).Text}}."
`))
	if err != nil {
		log.Fatal(err)
	}
	a, err := agent.New(agent.Config{Model: m, Tools: []tool.Source{tools}})
	if err != nil {
		log.Fatal(err)
	}
	d, err := a.Start(context.Background(), agent.SessionConfig{})
	if err != nil {
		log.Fatal(err)
	}
	res, err := d.RunText(context.Background(), "What is the weather in Tokyo?")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Response)
	// Output: It is sunny in Tokyo.
}
