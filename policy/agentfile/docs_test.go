package agentfile_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
)

var update = golden.Flag()

const (
	schemaFile    = "../../docs/agent.schema.json"
	referenceFile = "../../docs/agent-file.md"
	marker        = "<!-- generated from the schema: go test ./policy/agentfile -update -->\n"
)

func TestThePublishedSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	golden.Check(t, *update, schemaFile, string(agentfile.Schema()))
}

func TestTheReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(page), marker)
	if !ok {
		t.Fatalf("%s has no line %q", referenceFile, marker)
	}
	d := docs{root: readSchema(t)}
	d.section("", d.root)
	golden.Check(t, *update, referenceFile, head+marker+"\n"+strings.TrimSuffix(d.String(), "\n"))
}

// schema is a JSON Schema with its keys in order.
type schema yaml.MapSlice

func readSchema(t *testing.T) schema {
	t.Helper()
	var s yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(agentfile.Schema(), &s, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	return schema(s)
}

func (s schema) get(key string) any {
	for _, item := range s {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

func (s schema) sub(key string) schema {
	m, _ := s.get(key).(yaml.MapSlice)
	return schema(m)
}

func (s schema) text(key string) string {
	text, _ := s.get(key).(string)
	return text
}

func (s schema) list(key string) []any {
	l, _ := s.get(key).([]any)
	return l
}

// docs writes the reference: a table for each object.
type docs struct {
	strings.Builder

	root schema
}

func (d *docs) resolve(s schema) schema {
	if name, ok := strings.CutPrefix(s.text("$ref"), "#/$defs/"); ok {
		return append(slices.Clone(s), d.root.sub("$defs").sub(name)...)
	}
	return s
}

// element returns the schema of the elements of a list or map, or the schema itself.
func (d *docs) element(s schema) (inner schema, suffix string) {
	if items := s.sub("items"); items != nil {
		return d.resolve(items), "[]"
	}
	if values := s.get("additionalProperties"); values != nil && values != false {
		return d.resolve(s.sub("additionalProperties")), ".NAME"
	}
	return s, ""
}

func (d *docs) section(path string, s schema) {
	title := "`" + path + "`"
	if path == "" {
		title = "The file"
	}
	_, _ = fmt.Fprintf(d, "## %s\n\n| key | value | meaning |\n|---|---|---|\n", title)
	for _, item := range s.sub("properties") {
		p := d.resolve(s.sub("properties").sub(item.Key.(string)))
		name := "`" + item.Key.(string) + "`"
		if slices.Contains(s.list("required"), item.Key) {
			name += " (required)"
		}
		_, _ = fmt.Fprintf(d, "| %s | %s | %s |\n", name, d.value(p), strings.ReplaceAll(p.text("description"), "|", `\|`))
	}
	if rules := rules(s); rules != "" {
		_, _ = fmt.Fprintf(d, "\n%s\n", rules)
	}
	d.WriteByte('\n')
	for _, item := range s.sub("properties") {
		inner, suffix := d.element(d.resolve(s.sub("properties").sub(item.Key.(string))))
		if inner.sub("properties") != nil {
			d.section(strings.TrimPrefix(path+"."+item.Key.(string)+suffix, "."), inner)
		}
	}
}

// value says what a value may be.
func (d *docs) value(s schema) string {
	inner, suffix := d.element(s)
	switch {
	case suffix == "[]":
		return "list of " + d.value(inner)
	case suffix != "" && inner.get("type") == nil:
		return "any by name"
	case suffix != "":
		return d.value(inner) + " by name"
	case s.list("enum") != nil:
		return words(s.list("enum"), ", ")
	case s.text("format") == "go-duration":
		return "duration"
	case s.get("exclusiveMinimum") != nil:
		return fmt.Sprintf("more than %v and at most %v", s.get("exclusiveMinimum"), s.get("maximum"))
	case s.get("not") != nil && s.text("type") == "integer":
		return "integer from 1 up, or -1"
	case s.get("minimum") != nil:
		return fmt.Sprintf("integer from %v up", s.get("minimum"))
	}
	return s.text("type")
}

func words(of []any, last string) string {
	quoted := make([]string, len(of))
	for i, w := range of {
		quoted[i] = fmt.Sprintf("`%v`", w)
	}
	n := len(quoted) - 1
	if n < 1 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:n], ", ") + last + quoted[n]
}

// rules says which keys go together.
func rules(s schema) string {
	keys := func(key string) string {
		var all []any
		for _, one := range s.list(key) {
			all = append(all, schema(one.(yaml.MapSlice)).list("required")[0])
		}
		return words(all, " and ")
	}
	var all []string
	if s.list("oneOf") != nil {
		all = append(all, "Give exactly one of "+keys("oneOf")+".")
	}
	if s.list("anyOf") != nil {
		all = append(all, "Give at least one of "+keys("anyOf")+".")
	}
	if both := s.sub("not").list("required"); both != nil {
		all = append(all, "Give only one of "+words(both, " and ")+".")
	}
	for _, item := range s.sub("dependentRequired") {
		all = append(all, fmt.Sprintf("`%s` needs %s.", item.Key, words(item.Value.([]any), " and ")))
	}
	return strings.Join(all, " ")
}

func TestTheSchemaHasTheKeysOfADefinition(t *testing.T) {
	t.Parallel()
	d := docs{root: readSchema(t)}
	var check func(path string, s schema, typ reflect.Type)
	check = func(path string, s schema, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		s, _ = d.element(d.resolve(s))
		if typ.Kind() != reflect.Struct {
			return
		}
		var want, got []string
		for _, field := range reflect.VisibleFields(typ) {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			want = append(want, key)
			check(path+"."+key, s.sub("properties").sub(key), field.Type)
		}
		for _, item := range s.sub("properties") {
			got = append(got, item.Key.(string))
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || s.get("additionalProperties") != false {
			t.Errorf("%s: keys of the type and of the schema (-want +got):\n%s", path, diff)
		}
	}
	check("", d.root, reflect.TypeFor[agentfile.Definition]())
}

func TestTheSchemaHasTheWordsOfTheCode(t *testing.T) {
	t.Parallel()
	var points []any
	for _, p := range extension.HookPoints() {
		points = append(points, string(p))
	}
	props := readSchema(t).sub("properties")
	got := props.sub("hooks").sub("items").sub("properties").sub("points").sub("items").list("enum")
	if diff := cmp.Diff(points, got); diff != "" {
		t.Errorf("points of hooks (-want +got):\n%s", diff)
	}
	commands := props.sub("permissions").sub("properties").sub("commands").sub("properties")
	for key, words := range map[string]string{"code": "allow ask deny", "outside": "ask deny"} {
		var listed []string
		for _, word := range commands.sub(key).list("enum") {
			listed = append(listed, fmt.Sprint(word))
		}
		if got := strings.Join(listed, " "); got != words {
			t.Errorf("words of %s: %s, want %s", key, got, words)
		}
		for _, word := range append(listed, "maybe") {
			policy := permission.Policy{Commands: &permission.CommandRules{}}
			*map[string]*string{"code": &policy.Commands.Code, "outside": &policy.Commands.Outside}[key] = word
			if _, err := policy.In("."); (err == nil) != (word != "maybe") {
				t.Errorf("%s: %s: %v", key, word, err)
			}
		}
	}
}

// The parser checks formats, whose errors explain more; patterns are for editors.
func TestEachPatternOfTheSchemaHasAFormat(t *testing.T) {
	t.Parallel()
	var doc any
	if err := json.Unmarshal(agentfile.Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	var check func(value any)
	check = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if v["pattern"] != nil && v["format"] == nil {
				t.Errorf("%v has a pattern without a format", v)
			}
			for _, inner := range v {
				check(inner)
			}
		case []any:
			for _, inner := range v {
				check(inner)
			}
		}
	}
	check(doc)
}
