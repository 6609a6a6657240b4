package looptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryCommandCanBeTold(t *testing.T) {
	t.Parallel()
	var sealed, known []string
	for _, file := range []string{"../../../commands/asks.go", "../../../commands/reports.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "command" {
				sealed = append(sealed, fn.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	for _, c := range everyCommand() {
		known = append(known, reflect.TypeOf(c).Name())
	}
	slices.Sort(sealed)
	slices.Sort(known)
	if diff := cmp.Diff(sealed, known); diff != "" {
		t.Errorf("commands (-sealed +known):\n%s", diff)
	}
}
