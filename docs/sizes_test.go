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

// Limits of the tree, in lines. Tests are not counted.
const (
	maxPackage  = 4000
	maxFile     = 400
	maxFunction = 60
	maxColumns  = 100 // of a document's prose
)

// TestPackagesFilesAndFunctionsAreSmall keeps packages, files and functions within the
// limits. Split by subject what grows beyond them.
func TestPackagesFilesAndFunctionsAreSmall(t *testing.T) {
	lines := map[string]int{} // of each package
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
		lines[filepath.Dir(path)] += n
		if n > maxFile && !ast.IsGenerated(f) {
			t.Errorf("%s has %d lines, expected at most %d", path, n, maxFile)
		}
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1; n > maxFunction {
				t.Errorf("%s: %s has %d lines, expected at most %d", set.Position(d.Pos()), d.Name.Name, n, maxFunction)
			}
		}
	}
	if files < 100 {
		t.Fatalf("found %d files of Go", files)
	}
	for dir, n := range lines {
		if n > maxPackage {
			t.Errorf("package %s has %d lines, expected at most %d", dir, n, maxPackage)
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
