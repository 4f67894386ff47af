package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/explain"
)

// allCommands are a command and all below it, hidden ones too.
func allCommands(c *cobra.Command) []*cobra.Command {
	if !c.HasParent() {
		c.InitDefaultHelpCmd()
		c.InitDefaultCompletionCmd()
		c.InitDefaultVersionFlag()
	}
	c.InitDefaultHelpFlag()
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}

// invocation is a call of the command in a text: its words up to what ends a
// command line or a sentence.
var invocation = regexp.MustCompile("(?:^|[\\s\"`'(/$])softrdma((?:[ ]+[^\\s`\"'|;&()<>,]+)*)")

// word is what a subcommand looks like.
var word = regexp.MustCompile(`^[a-z][a-z-]*[a-z0-9]$`)

// A passage is a string with its place. In code every softrdma is the command.
type passage struct {
	where, text string
	code        bool
}

// goTexts are the string literals of this repository's programs, tests left out.
func goTexts(t *testing.T, root string) (all []passage) {
	walk(t, root, ".go", func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					all = append(all, passage{fset.Position(l.Pos()).String(), s, false})
				}
			}
			return true
		})
	})
	return all
}

// walk calls f with each file of the repository that has the extension.
func walk(t *testing.T, root, ext string, f func(path string)) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "tools") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ext) {
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// markdown are the lines of a document that show commands: in `code` and in
// blocks. Prose speaks of softrdma as well.
func markdown(t *testing.T, path string) (all []passage) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inBlock := false
	for i, line := range strings.Split(string(b), "\n") {
		where := path + ":" + strconv.Itoa(i+1)
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
			continue
		}
		if inBlock {
			all = append(all, passage{where, line, true})
			continue
		}
		for k, code := range strings.Split(line, "`") {
			if k%2 == 1 {
				all = append(all, passage{where, code, true})
			}
		}
	}
	return all
}

// wrongInvocation says what is wrong with the words behind "softrdma" of a command
// line, or nothing.
func wrongInvocation(root *cobra.Command, words []string) string {
	cmd := root
	for i, w := range words {
		w = strings.TrimRight(w, ".:!?")
		if name, _, _ := strings.Cut(w, "="); strings.HasPrefix(w, "-") {
			switch {
			case w == "--" || name == "--help" || name == "-h":
				return "" // another program's arguments, or cobra's own
			case strings.HasPrefix(name, "--"):
				if cmd.Flag(name[2:]) == nil {
					return cmd.CommandPath() + " has no flag " + name
				}
			case len(name) > 1 && cmd.Flags().ShorthandLookup(name[1:2]) == nil && cmd.PersistentFlags().ShorthandLookup(name[1:2]) == nil:
				return cmd.CommandPath() + " has no flag " + name[:2]
			}
			continue
		}
		if i > 0 && cmd.HasParent() && !cmd.HasSubCommands() || !word.MatchString(w) {
			continue // an argument
		}
		found := false
		for _, sub := range cmd.Commands() {
			if sub.Name() == w || sub.HasAlias(w) {
				cmd, found = sub, true
				break
			}
		}
		if !found && cmd == root {
			return "there is no command " + w
		}
	}
	return ""
}

// No text sends a user to a command or a flag that does not exist.
func TestTextsNameCommandsThatExist(t *testing.T) {
	root := newRootCommand()
	commands := allCommands(root)
	texts := goTexts(t, filepath.Join("..", ".."))
	walk(t, filepath.Join("..", ".."), ".md", func(path string) { texts = append(texts, markdown(t, path)...) })
	for _, c := range commands {
		for _, s := range []string{c.Long, c.Short, c.Example} {
			texts = append(texts, passage{c.CommandPath() + " --help", s, false})
		}
	}
	seen := 0
	for _, x := range texts {
		for _, line := range strings.Split(x.text, "\n") {
			for _, at := range invocation.FindAllStringSubmatchIndex(line, -1) {
				words := strings.Fields(line[at[2]:at[3]])
				if len(words) == 0 || !x.code && !quoted(root, line, at[0], words[0]) {
					continue
				}
				seen++
				if wrong := wrongInvocation(root, words); wrong != "" {
					t.Errorf("%s: %q: %s", x.where, strings.TrimSpace(line[at[0]:at[1]]), wrong)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("found %d texts that name a command, expected more than 100", seen)
	}
}

// quoted reports whether "softrdma" in a sentence is the command and not the
// project: where it stands in quotes or begins an indented line of an example,
// or the word behind it is a command.
func quoted(root *cobra.Command, line string, at int, next string) bool {
	if strings.ContainsRune("\"`'", rune(line[at])) || strings.HasPrefix(next, "-") || strings.HasPrefix(line, "  ") && strings.TrimSpace(line[:at]) == "" {
		return true
	}
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == next })
}

// Each command that prints JSON has its objects described.
func TestJSONIsDocumented(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range allCommands(newRootCommand()) {
		if c.Flag("json") != nil && !strings.Contains(string(b), "## `"+c.CommandPath()+" --json`") {
			t.Errorf("%s --json has no section in docs/json.md", c.CommandPath())
		}
	}
	for _, name := range []string{"devices", "explain", "pingpong", "rping", "perf", "demo", "capture", "bench"} {
		c, _, err := newRootCommand().Find([]string{name})
		if err != nil || c.Flag("json") == nil {
			t.Errorf("%s prints results and has no --json: %v", name, err)
		}
	}
}

func TestExitCodesAreThoseOfExplain(t *testing.T) {
	for n, meaning := range explain.ExitCodes {
		words := strings.ToLower(strings.TrimSuffix(meaning, "."))
		if !regexp.MustCompile(`(?m)^\s*` + strconv.Itoa(n) + `\s+` + regexp.QuoteMeta(words)).MatchString(strings.ToLower(cli.ExitCodesText)) {
			t.Errorf("%d: expected %q in\n%s", n, words, cli.ExitCodesText)
		}
	}
}
