// Package sample helps with the samples of tests: it checks that they are complete, and writes
// programs.
package sample

import (
	"reflect"
	"slices"
)

// Unset names the struct fields that are zero wherever they occur in v, as
// Type.Field, sorted. A field that one of several elements sets counts as set.
func Unset(v any) []string {
	seen := map[string]bool{}
	visit(reflect.ValueOf(v), seen)
	var out []string
	for name, set := range seen {
		if !set {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func visit(v reflect.Value, seen map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			visit(v.Elem(), seen)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			visit(v.Index(i), seen)
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			name := v.Type().String() + "." + f.Name
			seen[name] = seen[name] || !field.IsZero()
			visit(field, seen)
		}
	default:
	}
}
