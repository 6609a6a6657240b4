package worker_test

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

func Example() {
	type City struct {
		Name string `json:"name"`
	}
	weather, err := tool.Func("weather", "Tells the weather in a city.", func(_ context.Context, c City) (string, error) {
		return "It rains in " + c.Name + ".", nil
	}, tool.ReadOnly())
	if err != nil {
		fmt.Println(err)
		return
	}
	tools, err := tool.NewRegistry("example", weather)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, stop := context.WithCancel(context.Background())
	queues := task.NewMemory(0, func(_ context.Context, r task.Report) error {
		fmt.Println(r.Outcome.Result.Status, r.Outcome.Result.Text())
		stop()
		return nil
	})
	w, err := worker.New(worker.Config{Queue: queues.Queue("default"), Tools: []tool.Source{tools}, Logger: zap.NewNop()})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := queues.Dispatch(ctx, task.Task{
		Session: "s-42", Place: "t1-r1-c1", Attempt: 1, Queue: "default", Tool: "weather", Input: []byte(`{"name":"Bergen"}`),
	}); err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: ok It rains in Bergen.
}
