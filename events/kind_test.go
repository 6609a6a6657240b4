package events

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEverySealedTypeHasAKind(t *testing.T) {
	t.Parallel()
	var sealed, shown []string
	f, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "event" {
			sealed = append(sealed, fn.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	for _, ev := range samples() {
		shown = append(shown, reflect.TypeOf(ev).Name())
	}
	slices.Sort(sealed)
	slices.Sort(shown)
	if diff := cmp.Diff(sealed, shown); diff != "" {
		t.Errorf("samples_test.go needs one sample of each sealed type (-sealed +sample):\n%s", diff)
	}
	if len(Kinds()) != len(sealed) {
		t.Errorf("%d kinds for %d sealed types: the list zeros in kind.go needs each", len(Kinds()), len(sealed))
	}
}

func TestKindsAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[Kind]bool{}
	for _, k := range Kinds() {
		if seen[k] {
			t.Errorf("%s is listed twice", k)
		}
		seen[k] = true
	}
}

func TestOnlyLiveAndDerivedKindsStayOutOfJournals(t *testing.T) {
	t.Parallel()
	var out []Kind
	for _, k := range Kinds() {
		if !Journaled(k) {
			out = append(out, k)
		}
	}
	want := []Kind{KindContentDelta, KindContentRepeated, KindToolProgress, KindStateChanged, KindRefused}
	if !slices.Equal(out, want) {
		t.Errorf("not journaled: %v, want %v", out, want)
	}
}

// Fields with the same key would overwrite each other, and a field without a tag would
// put a Go name on the wire.
func TestEveryFieldOnTheWireHasItsOwnShortKey(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{reflect.TypeFor[Hash](): true}
	for _, ev := range samples() {
		checkKeys(t, reflect.TypeOf(ev), seen)
	}
}

func checkKeys(t *testing.T, typ reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		checkKeys(t, typ.Elem(), seen)
		return
	case reflect.Struct:
	default:
		return
	}
	if seen[typ] {
		return
	}
	seen[typ] = true
	keys := map[string]bool{}
	for f := range typ.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		if key == "" || len(key) > 3 || keys[key] {
			t.Errorf("%s.%s: key %q is missing, long or taken", typ, f.Name, key)
		}
		keys[key] = true
		checkKeys(t, f.Type, seen)
	}
}
