package main

import "github.com/turnlog/turnlog/model/registry"

// models returns the models of this binary. Add providers of your own here.
func models(getenv func(string) string) *registry.Registry {
	return registry.New(getenv)
}

// ready returns the providers whose models this node can open.
func ready(r *registry.Registry) []string {
	var names []string
	for _, s := range r.Status() {
		if s.Ready {
			names = append(names, s.Provider)
		}
	}
	return names
}
