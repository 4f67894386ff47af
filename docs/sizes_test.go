package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of the tree. Tests are not counted.
const (
	maxMethods  = 50  // of a type
	maxFields   = 30  // of a type
	maxExported = 75  // names of a package, without methods and fields
	maxFile     = 400 // lines
	maxFunction = 60  // lines
	maxColumns  = 100 // of a document's prose
)

// What is larger than a limit has its size here. It may shrink and not grow, and nothing may be
// added: split by subject what grows beyond a limit.
var (
	largeMethods = map[string]int{
		"msg.Worker":                       57,
		"rdmacm.ID":                        57,
		"internal/uverbs/commands.context": 56,
	}
	largeFields = map[string]int{
		"internal/wire/mad/smp.PortInfo":        51,
		"internal/wire/uapi.QueryDeviceResp":    41,
		"internal/management/hardware.Counters": 40,
		"internal/iwarp.receiver":               39,
		"msg.Worker":                            31,
	}
	largeExported = map[string]int{
		"internal/wire/uapi":        233,
		"verbs":                     215,
		"internal/wire/ib":          178,
		"internal/wire/mad":         175,
		"internal/wire/mad/smp":     137,
		"ucx":                       130,
		"internal/wire/mad/sa":      124,
		"internal/wire/iwarp":       117,
		"internal/queue":            109,
		"cmd/softrdma/internal/cli": 114,
		"bench/compare":             102,
	}
)

// TestTypesFilesAndFunctionsAreSmall keeps types, files, functions and the faces of packages within
// the limits. A package has no limit of lines: such a limit moves code into packages that only
// their neighbour imports, and separates nothing.
func TestTypesFilesAndFunctionsAreSmall(t *testing.T) {
	methods, fields, exported := map[string]int{}, map[string]int{}, map[string]int{}
	seen := map[string]bool{} // methods, of which each system may have its own
	files := 0
	for _, path := range sourceFiles(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if n := set.File(f.FileStart).LineCount(); n > maxFile && !ast.IsGenerated(f) {
			t.Errorf("%s has %d lines, expected at most %d", path, n, maxFile)
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.ToSlash(dir)
		for _, d := range f.Decls {
			if dir != "internal/reason" { // names of every subject, of which each has a file of at most 64 reasons
				exported[dir] += exportedNames(d)
			}
			switch d := d.(type) {
			case *ast.FuncDecl:
				if typ := receiver(d); typ != "" && !seen[dir+"."+typ+d.Name.Name] {
					seen[dir+"."+typ+d.Name.Name] = true
					methods[dir+"."+strings.TrimSuffix(typ, ".")]++
				}
				if n := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1; n > maxFunction {
					t.Errorf("%s: %s has %d lines, expected at most %d", set.Position(d.Pos()), d.Name.Name, n, maxFunction)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						name := dir + "." + s.Name.Name // one for each system
						fields[name] = max(fields[name], fieldsOf(s.Type))
					}
				}
			}
		}
	}
	if files < 100 {
		t.Fatalf("found %d files of Go", files)
	}
	holdLimit(t, "methods", methods, maxMethods, largeMethods)
	holdLimit(t, "fields", fields, maxFields, largeFields)
	holdLimit(t, "exported names", exported, maxExported, largeExported)
}

// holdLimit compares counts with a limit and its exceptions.
func holdLimit(t *testing.T, what string, counts map[string]int, limit int, large map[string]int) {
	t.Helper()
	for name, n := range counts {
		if most := max(limit, large[name]); n > most {
			t.Errorf("%s has %d %s, expected at most %d", name, n, what, most)
		}
	}
}

// exportedNames counts the exported names of a declaration, without methods and fields.
func exportedNames(d ast.Decl) (n int) {
	count := func(names ...*ast.Ident) {
		for _, i := range names {
			if i.IsExported() {
				n++
			}
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			count(d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				count(s.Name)
			case *ast.ValueSpec:
				count(s.Names...)
			}
		}
	}
	return n
}

// fieldsOf counts the fields of a struct. An embedded type counts as one.
func fieldsOf(typ ast.Expr) (n int) {
	s, ok := typ.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// TestDocumentsFitATerminal: prose is wrapped at 100 columns. Tables, code and long
// words such as links are not.
func TestDocumentsFitATerminal(t *testing.T) {
	for _, path := range sourceFiles(t, ".md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") || !strings.Contains(strings.TrimSpace(line), " ") {
				continue
			}
			if n := utf8.RuneCountInString(line); n > maxColumns {
				t.Errorf("%s:%d has %d columns, expected at most %d", path, i+1, n, maxColumns)
			}
		}
	}
}

// sourceFiles returns the repository's files with a suffix, except those in directories
// that the build writes to and recorded data.
func sourceFiles(t *testing.T, suffix string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, suffix):
			list = append(list, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
