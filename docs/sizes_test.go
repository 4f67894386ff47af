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
	maxMethods  = 118 // of a type: the largest one of today
	maxFile     = 400 // lines
	maxFunction = 60  // lines
	maxColumns  = 100 // of a document's prose
)

// TestTypesFilesAndFunctionsAreSmall keeps types, files and functions within the limits.
// Split by subject what grows beyond them. A package has no limit of lines: such a limit
// moves code into packages that only their neighbour imports, and unties nothing.
func TestTypesFilesAndFunctionsAreSmall(t *testing.T) {
	methods := map[string]int{} // of each type
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
		n := set.File(f.FileStart).LineCount()
		if n > maxFile && !ast.IsGenerated(f) {
			t.Errorf("%s has %d lines, expected at most %d", path, n, maxFile)
		}
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if typ := receiver(d); typ != "" {
				methods[filepath.Dir(path)+"."+strings.TrimSuffix(typ, ".")]++
			}
			if n := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1; n > maxFunction {
				t.Errorf("%s: %s has %d lines, expected at most %d", set.Position(d.Pos()), d.Name.Name, n, maxFunction)
			}
		}
	}
	if files < 100 {
		t.Fatalf("found %d files of Go", files)
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("type %s has %d methods, expected at most %d", name, n, maxMethods)
		}
	}
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
