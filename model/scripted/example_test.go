package scripted_test

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
)

func ExampleParse() {
	m, err := scripted.Parse("hello.yaml", []byte(`
replies:
  - text: You said {{.Prompt}}. I look.
    calls:
      - name: fs_read_file
        input: {path: "{{.Prompt}}"}
  - text: It has {{len (index .Results 0).Text}} bytes.
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	transcript := []content.Item{content.UserText("go.mod")}
	reply, err := m.Call(context.Background(), model.Request{Transcript: transcript}, func(content.Delta) {})
	fmt.Println(reply.Items[0].Text(), err)
	for _, c := range reply.Items[0].Calls() {
		fmt.Println(c.ProviderID, c.Name, string(c.Input))
		result := content.NewResult("c", c.Name, content.StatusOK, "module m")
		transcript = append(transcript, reply.Items[0], content.NewItem(content.Tool, content.ResultPart(result)))
	}

	reply, err = m.Call(context.Background(), model.Request{Transcript: transcript}, func(content.Delta) {})
	fmt.Println(reply.Items[0].Text(), err)
	// Output:
	// You said go.mod. I look. <nil>
	// call_1_1 fs_read_file {"path":"go.mod"}
	// It has 8 bytes. <nil>
}

func ExampleParse_wrong() {
	_, err := scripted.Parse("hello.yaml", []byte("replies:\n  - text: Hi\n    dealy: 2s\n"))
	fmt.Println(err)
	// Output: script hello.yaml:3:5: unknown field "dealy"
}
