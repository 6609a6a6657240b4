package registry_test

import (
	"fmt"

	"github.com/turnlog/turnlog/model/registry"
)

func ExampleOpen() {
	m, err := registry.Open("scripted:hello.yaml", []byte("replies:\n  - text: Hello!\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Name())

	_, err = registry.Open("oracle:large", nil)
	fmt.Println(err)
	// Output:
	// scripted:hello.yaml
	// model "oracle:large": unknown provider "oracle": use demo or scripted:FILE
}
