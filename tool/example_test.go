package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

func ExampleFunc() {
	type input struct {
		Text  string `json:"text" jsonschema:"what to repeat"`
		Times int    `json:"times,omitempty" jsonschema:"how often; once if left out"`
	}
	repeat, err := tool.Func("repeat", "Repeats a text.", func(_ context.Context, in input) (string, error) {
		return strings.Repeat(in.Text, max(1, in.Times)), nil
	}, tool.ReadOnly())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}

	for _, arguments := range []string{`{"text": "la", "times": 3}`, `{"txt": "la"}`} {
		r := tool.Invoke(context.Background(), repeat, tool.Call{ID: "c1", Input: json.RawMessage(arguments)})
		fmt.Println(r.Result.Status, "-", r.Result.Text())
	}
	// Output:
	// ok - lalala
	// error - Invalid arguments: additional properties 'txt' not allowed; missing property 'text'
}
