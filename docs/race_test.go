package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// startsGoroutine reports whether the syntax starts a goroutine, or is a call that may.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.SelectorExpr:
		return n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc" || n.Sel.Name == "Parallel"
	case *ast.ImportSpec:
		return n.Path.Value == `"testing/synctest"` || strings.HasSuffix(n.Path.Value, `/bubble"`)
	}
	return false
}

// make race leaves out the packages of MACHINES, where the race detector finds nothing.
func TestMachinesOfTheMakefileStartNoGoroutines(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^MACHINES := (.*)$`).FindSubmatch(b)
	if m == nil {
		t.Fatal("the Makefile has no MACHINES")
	}
	machines := regexp.MustCompile("^(" + string(m[1]) + ")$")
	found := map[string]bool{}
	for _, path := range sourceFiles(t, ".go") {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if dir = filepath.ToSlash(dir); !machines.MatchString(dir) {
			continue
		}
		found[dir] = true
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if startsGoroutine(n) {
				t.Errorf("%v: starts a goroutine: remove %s from MACHINES in the Makefile", set.Position(n.Pos()), dir)
			}
			return true
		})
	}
	if len(found) < 30 {
		t.Errorf("MACHINES matches %d packages, expected at least 30", len(found))
	}
}

func TestGoroutinesAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		`import "testing"; func f() { g() }`:               false,
		`func f() { go g() }`:                              true,
		`func f() { var w sync.WaitGroup; w.Go(g) }`:       true,
		`func f() { time.AfterFunc(0, g) }`:                true,
		`func TestF(t *testing.T) { t.Parallel() }`:        true,
		`import "testing/synctest"`:                        true,
		`import "softrdma/internal/simnet/bubble"`:         true,
		`import "softrdma/internal/simnet"; var Go = "go"`: false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p; "+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		ast.Inspect(f, func(n ast.Node) bool { found = found || startsGoroutine(n); return true })
		if found != want {
			t.Errorf("%s: found %v, expected %v", text, found, want)
		}
	}
}
