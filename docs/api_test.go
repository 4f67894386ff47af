package docs

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// publicPackages are the directories of the packages that other modules can
// import: no commands, no examples, nothing internal.
func publicPackages(t *testing.T) (dirs []string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch d.Name() {
		case "internal", "cmd", "examples", "interop", "bench", "tools", "docs", "preload", "testdata", ".git":
			return filepath.SkipDir
		}
		if list, _ := filepath.Glob(filepath.Join(path, "*.go")); list != nil {
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// documented is a package as go doc shows it on Linux: exported names only,
// without unexported fields and function bodies.
func documented(t *testing.T, fset *token.FileSet, dir string) *doc.Package {
	list, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range list {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, "softrdma/"+filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// internalImports are the names by which a directory's files know internal
// packages.
func internalImports(t *testing.T, dir string) map[string]string {
	names := map[string]string{}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil || !strings.Contains(path, "internal/") {
				continue
			}
			name := path[strings.LastIndexByte(path, '/')+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			names[name] = path
		}
	}
	return names
}

// A program cannot import internal packages, so what it sees must not lead
// there: go doc would show neither fields nor values. Sentinel errors may be
// another package's values, since their type is error.
func TestPublicPackagesShowNoInternalType(t *testing.T) {
	dirs := publicPackages(t)
	if len(dirs) < 3 {
		t.Fatalf("found the public packages %v, expected at least verbs, rdmacm and rdmanet", dirs)
	}
	for _, dir := range dirs {
		fset, names := token.NewFileSet(), internalImports(t, dir)
		p := documented(t, fset, dir)
		check := func(n ast.Node) {
			ast.Inspect(n, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok && names[x.Name] != "" {
					t.Errorf("%v: %s.%s, of package %s, in what go doc shows", fset.Position(s.Pos()), x.Name, s.Sel.Name, names[x.Name])
				}
				return true
			})
		}
		values := func(list []*doc.Value) {
			for _, v := range list {
				for _, s := range v.Decl.Specs {
					if v.Decl.Tok == token.VAR && strings.HasPrefix(s.(*ast.ValueSpec).Names[0].Name, "Err") {
						continue
					}
					check(s)
				}
			}
		}
		funcs := func(list []*doc.Func) {
			for _, f := range list {
				check(f.Decl)
			}
		}
		values(p.Consts)
		values(p.Vars)
		funcs(p.Funcs)
		for _, x := range p.Types {
			check(x.Decl)
			values(x.Consts)
			values(x.Vars)
			funcs(x.Funcs)
			funcs(x.Methods)
		}
	}
}
