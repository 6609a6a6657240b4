package registry_test

import (
	"fmt"

	"github.com/turnlog/turnlog/model/registry"
)

func ExampleRegistry_Open() {
	r := registry.New(nil) // an environment without variables
	m, err := r.Open("scripted:hello.yaml", []byte("replies:\n  - text: Hello!\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Name())

	_, err = r.Open("openai:gpt-5", nil)
	fmt.Println(err)
	// Output:
	// scripted:hello.yaml
	// model openai:gpt-5: OPENAI_API_KEY is not set in the environment of this process: set it, or set the address of a server that needs no key as OPENAI_BASE_URL
}
