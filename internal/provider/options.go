package provider

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The options of a model are the fields of its configuration with a tag option:"name".
// A tag want:"…" limits the values that differ from the zero value: to words, as in
// "low, medium, high", or to numbers, as in "0 to 2" or "at least 1".

// OptionNames returns the names of the options of a configuration, in the order of its
// fields.
func OptionNames(cfg any) []string {
	var names []string
	for f := range reflect.TypeOf(cfg).Fields() {
		if name := f.Tag.Get("option"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// SetOptions parses the given options into the fields of *cfg.
func SetOptions[C any](cfg *C, given url.Values) error {
	for f, v := range reflect.ValueOf(cfg).Elem().Fields() {
		name := f.Tag.Get("option")
		if !given.Has(name) {
			continue
		}
		if want, ok := parse(v, given.Get(name)); !ok {
			return fmt.Errorf("option %s=%s: want %s", name, given.Get(name), want)
		}
	}
	return nil
}

// parse sets v if its kind accepts the text. It returns what the kind wants.
func parse(v reflect.Value, text string) (want string, ok bool) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return parse(v.Elem(), text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		v.SetBool(b)
		return "true or false", err == nil
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
		return "a whole number", err == nil
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		v.SetFloat(f)
		return "a number", err == nil
	default:
		v.SetString(text)
		return "", true
	}
}

// checkOptions returns an error for the first option of a configuration with a value
// that its field does not allow.
func checkOptions(cfg any) error {
	for f, v := range reflect.ValueOf(cfg).Fields() {
		want := f.Tag.Get("want")
		if want == "" || v.IsZero() {
			continue
		}
		if v = reflect.Indirect(v); !allowed(v, want) {
			return fmt.Errorf("option %s=%v: want %s", f.Tag.Get("option"), v, want)
		}
	}
	return nil
}

func allowed(v reflect.Value, want string) bool {
	if v.Kind() == reflect.String {
		return slices.Contains(strings.Split(want, ", "), v.String())
	}
	low, high := 0.0, math.Inf(1)
	if _, err := fmt.Sscanf(want, "at least %g", &low); err != nil {
		_, _ = fmt.Sscanf(want, "%g to %g", &low, &high) // every tag has one of the two forms
	}
	n := v.Convert(reflect.TypeFor[float64]()).Float()
	return n >= low && n <= high // false for NaN
}
