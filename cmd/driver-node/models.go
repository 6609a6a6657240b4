package main

import (
	"fmt"

	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/registry"
)

// providers lists the models that this binary has. A new one is a line here.
func providers() []registry.Provider {
	return registry.Providers()
}

// openModel makes the model that a session was started with. Scripts travel with
// the session: a name that somebody else wrote must not open files of this machine.
func openModel(name string, data []byte) (model.Model, error) {
	ref, err := registry.ParseRef(name)
	if err != nil {
		return nil, err
	}
	if ref.Provider == "scripted" && data == nil {
		return nil, fmt.Errorf("model %s: the session was started without the script's content", name)
	}
	return registry.OpenFrom(providers(), name, data)
}
