package embedded_test

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
)

func Example() {
	ctx := context.Background()
	srv, err := embedded.Start(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	nc, err := srv.Connect()
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := nc.Subscribe("greet", func(m *nats.Msg) {
		_ = m.Respond(append([]byte("hello, "), m.Data...))
	}); err != nil {
		fmt.Println(err)
		return
	}
	reply, err := nc.RequestWithContext(ctx, "greet", []byte("turnlog"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(reply.Data))

	_, err = embedded.Start(ctx, embedded.WithSync())
	fmt.Println(err)
	// Output:
	// hello, turnlog
	// start embedded server: WithSync needs a store directory: nothing can be synced in memory
}
