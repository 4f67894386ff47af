package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A wording is a pattern of words, and what to write instead.
type wording struct{ pattern, write string }

// banned lists wording that comments, help texts and documents do not use, as a
// pattern of whole words, and what to write. It contains only wording that has no
// legitimate use in this repository.
var banned = []wording{
	{`tells? whether`, "reports whether"},
	{`telling whether`, "reporting whether"},
	{`that of which`, "a sentence with a subject and a verb"},
	{`for ever`, "forever, or without limit"},
	{`anew`, "again"},
	{`in vain`, "without success"},
	{`as a rule`, "usually"},
	{`lets? go of`, "releases"},
	{`mends?`, "fix or repair"},
	{`agendas?`, "event queue"},
	{`balls?`, "message"},
	{`beds?`, "sleep lock"},
	{`crowds?`, "QP-scaling benchmark, or the queue pairs"},
	{`crowded`, "limited by the congestion window"},
	{`habits?`, "recent behaviour, or what the counter counts"},
	{`lone`, "single"},
	{`middles`, "Middle packets, or the mid-message fast path"},
	{`naps?`, "blocking wait"},
	{`nests?`, "sleep queue"},
	{`patience`, "time limit"},
	{`pours?`, "saturate"},
	{`pouring`, "saturating"},
	{`rall(y|ies)`, "the exchange that it measures"},
	{`seats?`, "CPU placement"},
	{`strangers?`, "unknown or unauthenticated peer"},
	{`visitors?`, "lease"},
	{`to who`, "to any waiter, or to the one that"},
	{`who waits?`, "a waiter"},
	{`(whoever|somebody|anybody|everybody|nobody)`, "the process, user or peer that it is"},
	{`at most (most|longest)`, "a parameter named limit"},
	{`(nil|zero|0) (for|where) none`, "nil or 0 if there is none"},
	{`nil where`, "nil if"},
	{`go(es)? on`, "continues"},
	{`carrie[sd] out`, "executes"},
	{`give[sn]? back`, "returns or frees"},
	{`what c[ao]mes? of`, "the result of"},
	{`so that none`, "a sentence with a subject"},
	{`in no \w+ any more`, "that has left"},
}

var bannedPatterns = patterns(banned)

func patterns(list []wording) (all []*regexp.Regexp) {
	for _, p := range list {
		words := strings.ReplaceAll(p.pattern, " ", `\s+`)
		all = append(all, regexp.MustCompile(`(?i)\b`+words+`\b`))
	}
	return all
}

// checkWords reports the banned wording in a text that begins at a line of a file.
func checkWords(t *testing.T, file string, line int, text string) {
	t.Helper()
	for i, p := range bannedPatterns {
		for _, at := range p.FindAllStringIndex(text, -1) {
			found := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			t.Errorf("%s:%d: %q: write %s", file, line+strings.Count(text[:at[0]], "\n"), found, banned[i].write)
		}
	}
}

func TestCommentsAndHelpUsePlainWords(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || name == filepath.Join("docs", "words_test.go") {
			return nil
		}
		return checkSource(t, path, filepath.ToSlash(name))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkSource checks the comments of a Go file and, in the command, its string
// literals, which include help texts and messages.
func checkSource(t *testing.T, path, name string) error {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, g := range f.Comments {
		var lines []string
		for _, c := range g.List {
			lines = append(lines, strings.TrimPrefix(c.Text, "//"))
		}
		checkWords(t, name, fset.Position(g.Pos()).Line, strings.Join(lines, "\n"))
	}
	if !strings.HasPrefix(name, "cmd/") && !strings.HasPrefix(name, "internal/explain/") && !strings.HasPrefix(name, "internal/reason/") {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			checkWords(t, name, fset.Position(l.Pos()).Line, l.Value)
		}
		return true
	})
	return nil
}

// code matches code in Markdown: blocks and quoted words.
var code = regexp.MustCompile("(?s)```.*?```|`[^`]*`")

func TestDocumentsUsePlainWords(t *testing.T) {
	for name, text := range documents(t) {
		// Line numbers stay the same.
		text = code.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
		checkWords(t, "docs/"+name, 1, text)
	}
}

func TestPlainWordsAreFound(t *testing.T) {
	for i, text := range []string{"It tells\n whether", "NEST", "a crowd.", "Strangers"} {
		if n := found(text); n != 1 {
			t.Errorf("%d: %q: found %d times, expected 1", i, text, n)
		}
	}
	if n := found("honest, nested, renewed, napkin, alone, bedrock"); n != 0 {
		t.Errorf("found %d parts of words", n)
	}
}

// found returns the number of matches of banned wording in a text.
func found(text string) (n int) {
	for _, p := range bannedPatterns {
		n += len(p.FindAllString(text, -1))
	}
	return n
}
