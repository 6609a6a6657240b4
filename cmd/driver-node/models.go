package main

import "github.com/turnlog/turnlog/model/registry"

// models knows the models that this binary has. A provider of one's own is an
// argument here.
func models(getenv func(string) string) *registry.Registry {
	return registry.New(getenv)
}

// ready lists the providers whose models this node can open.
func ready(r *registry.Registry) []string {
	var names []string
	for _, s := range r.Status() {
		if s.Ready {
			names = append(names, s.Provider)
		}
	}
	return names
}
