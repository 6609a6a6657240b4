package modeltest_test

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

func ExampleNewFake() {
	m := modeltest.NewFake("parrot", func(_ context.Context, r model.Request) (model.Reply, error) {
		last := r.Transcript[len(r.Transcript)-1]
		return modeltest.Text(last.Text() + "!"), nil
	})
	reply, err := m.Call(context.Background(), modeltest.Ask("hello"), func(content.Delta) {})
	fmt.Println(reply.Items[0].Text(), err)
	// Output: hello! <nil>
}
