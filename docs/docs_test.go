// Package docs holds prose only. Its test holds the prose against the code: it
// owns no rule, and nothing imports it.
package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"softrdma/internal/explain"
)

const root = ".."

// source finds a path of the map: below internal/, or from the repository's root.
func source(path string) (string, error) {
	for _, dir := range []string{"internal", ""} {
		p := filepath.Join(root, dir, filepath.FromSlash(path))
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("no such file or directory: %s", path)
}

// declared are the names that a file declares: functions, methods as
// "Type.Method", types, constants and variables.
func declared(path string) (map[string]bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[receiver(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
	return names, nil
}

// receiver returns the name of the type that a method belongs to with a dot behind it,
// and nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	switch g := t.(type) { // of a generic type
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	if i, ok := t.(*ast.Ident); ok {
		return i.Name + "."
	}
	return ""
}

// tests are the test functions of a package's directory.
func tests(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, f := range files {
		names, err := declared(f)
		if err != nil {
			return nil, err
		}
		for n := range names {
			all[n] = strings.HasPrefix(n, "Test")
		}
	}
	return all, nil
}

// A mapped clause is an entry of the map.
type mapped struct {
	line    int
	clauses []string
	code    []string
	tests   []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

func names(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// entry matches an entry of the map: the clauses, the rule, and two lists of names.
var entry = regexp.MustCompile(`(?ms)^- \*\*([^*]+?)\*\* .+?\n  - Code: (.+?)\n  - Tests: ((?:[^\n]|\n    )+)`)

func specMap(t *testing.T) (all []mapped) {
	t.Helper()
	b, err := os.ReadFile("spec-map.md")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), "## What is not there")
	for _, at := range entry.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string { return text[at[2*i]:at[2*i+1]] }
		line := 1 + strings.Count(text[:at[0]], "\n")
		all = append(all, mapped{line: line, clauses: clauses(part(1)), code: names(part(2)), tests: names(part(3))})
	}
	if n := strings.Count(text, "\n- **"); n != len(all) {
		t.Fatalf("spec-map.md: read %d of %d entries: each has clauses, a rule, code and tests", len(all), n)
	}
	return all
}

func TestSpecMapNamesWhatExists(t *testing.T) {
	rows := specMap(t)
	if len(rows) < 50 {
		t.Fatalf("found %d entries, expected more", len(rows))
	}
	for _, r := range rows {
		if len(r.clauses) == 0 || len(r.code) == 0 || len(r.tests) == 0 {
			t.Errorf("spec-map.md:%d: clauses %v, code %v, tests %v: expected some of each", r.line, r.clauses, r.code, r.tests)
		}
		for _, c := range r.code {
			if err := exists(c); err != nil {
				t.Errorf("spec-map.md:%d: %v", r.line, err)
			}
		}
		for _, c := range r.tests {
			if err := existsTest(c); err != nil {
				t.Errorf("spec-map.md:%d: %v", r.line, err)
			}
		}
	}
}

// exists checks "path/file.go" or "path/file.go:Name".
func exists(ref string) error {
	path, name, _ := strings.Cut(ref, ":")
	p, err := source(path)
	if err != nil || name == "" {
		return err
	}
	all, err := declared(p)
	if err == nil && !all[name] {
		err = fmt.Errorf("%s declares no %s", path, name)
	}
	return err
}

// existsTest checks "path:TestName".
func existsTest(ref string) error {
	path, name, ok := strings.Cut(ref, ":")
	if !ok {
		return fmt.Errorf("%s: expected path:TestName", ref)
	}
	p, err := source(path)
	if err != nil {
		return err
	}
	all, err := tests(p)
	if err == nil && !all[name] {
		err = fmt.Errorf("%s has no test %s", path, name)
	}
	return err
}

// clause finds numbers of sections of the chapters 4 to 18 and of the annexes
// A10, A11, A16 and A17, and compliance statements. A bare number is a clause where "IBTA", "annex" or
// another clause stands before it; the others are everywhere.
var (
	clause  = regexp.MustCompile(`\b(?:802\.(?:1Q|1AB|3) [A-Z]?\d+[A-Z]?(?:\.\d+)*|RFC \d{4} \d+(?:\.\d+)*|A1[0167](?:\.\d+)+|A10|CA17-\d+|[Co]\d+-\d+(?:\.\d+)*|(?:4|5|7|8|9|1[0-8])(?:\.\d+)+|5)\b`)
	citing  = regexp.MustCompile(`(?:IBTA|[Aa]nnex)[ \n](?:` + clause.String() + `)(?:(?:, | to | and |; )(?:` + clause.String() + `))*`)
	plain   = regexp.MustCompile(`\b(?:A1[0167](?:\.\d+)+|CA17-\d+|[Co](?:9|10|11)-\d+(?:\.\d+)*)\b`)
	comment = regexp.MustCompile(`(?m)//[^\n]*(?:\n[ \t]*//[^\n]*)*|"(?:IBTA|annex)[^"]*"`)
	slashes = regexp.MustCompile(`\n[ \t]*//`)
)

func clauses(s string) []string { return clause.FindAllString(s, -1) }

// cited are the clauses that the comments, and the texts of explain, cite.
func cited(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"internal", "verbs", "rdmacm", "rdmanet", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, c := range comment.FindAllString(string(b), -1) {
				c = slashes.ReplaceAllString(c, "")
				for _, x := range append(clauses(strings.Join(citing.FindAllString(c, -1), " ")), plain.FindAllString(c, -1)...) {
					all[x] = path
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestSpecMapHasEveryClauseCited keeps one rule under one number: a comment
// that cites another one than the map needs an entry of its own, or correction.
func TestSpecMapHasEveryClauseCited(t *testing.T) {
	known := map[string]bool{}
	for _, r := range specMap(t) {
		for _, c := range r.clauses {
			known[c] = true
		}
	}
	all := cited(t)
	if len(all) < 60 {
		t.Fatalf("found %d clauses cited: the comments are not read any more", len(all))
	}
	for c, path := range all {
		if !known[c] {
			t.Errorf("%s cites %s, for which spec-map.md has no entry", path, c)
		}
	}
}

var (
	reasonName = regexp.MustCompile(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b`)
	useLine    = regexp.MustCompile(`Use:\s+"([a-z]+)`)
	shellUse   = regexp.MustCompile("(?m)(?:^ *\\$ |`|^ {4,})softrdma ([a-z]+)")
)

// ownNames are capital names of the documents that explain does not know.
var ownNames = []string{"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND", "COMM_EST", "LAST_WQE_REACHED", "SOFTRDMA_FABRIC_SECRET"}

func documents(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("documents %v: %v", files, err)
	}
	all := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[f] = string(b)
	}
	return all
}

// TestDocumentsReferToWhatExists checks references into the code in all
// documents, in the form of the map's.
func TestDocumentsReferToWhatExists(t *testing.T) {
	found := 0
	for f, text := range documents(t) {
		for _, n := range names(text) {
			var err error
			switch {
			case strings.Contains(n, ".go:"):
				err = exists(n)
			case strings.Contains(n, ":Test"):
				err = existsTest(n)
			default:
				continue
			}
			found++
			if err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
	if found < 100 {
		t.Errorf("found %d references: they are not read any more", found)
	}
}

// Every name in the troubleshooting guide is known to `softrdma explain`.
func TestTroubleshootingNamesAreExplained(t *testing.T) {
	known := map[string]bool{}
	for _, e := range explain.All() {
		known[e.Name] = true
	}
	found := 0
	for _, n := range reasonName.FindAllString(documents(t)["troubleshooting.md"], -1) {
		_, err := explain.Lookup(n)
		switch {
		case known[n] || strings.HasPrefix(n, "IBV_") && err == nil:
			found++
		case !slices.Contains(ownNames, n):
			t.Errorf("troubleshooting.md names %s, which explain does not know", n)
		}
	}
	if found < 10 {
		t.Errorf("found %d names of explain: the document is not read any more", found)
	}
}

func TestDocumentsNameCommandsThatExist(t *testing.T) {
	known := map[string]bool{"help": true}
	files, err := filepath.Glob(filepath.Join(root, "cmd", "softrdma", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	commands, err := filepath.Glob(filepath.Join(root, "cmd", "softrdma", "internal", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, commands...)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range useLine.FindAllStringSubmatch(string(b), -1) {
			known[m[1]] = true
		}
	}
	if !known["capture"] || !known["explain"] {
		t.Fatalf("commands %v: their definitions are not read any more", known)
	}
	for f, text := range documents(t) {
		for _, m := range shellUse.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("%s names the command %q, which there is not", f, "softrdma "+m[1])
			}
		}
	}
}
