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
	explaincommand "softrdma/cmd/softrdma/internal/explain"
	"softrdma/internal/explain"
)

// allCommands returns a command and all its subcommands, hidden ones included.
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

// invocation matches a call of the command in a text, up to the end of the command line
// or the sentence. Words that are further apart stand in the columns of a table.
var invocation = regexp.MustCompile("(?:^|[\\s\"`'(/$])softrdma((?:[ ]{1,3}[^\\s`\"'|;&()<>,]+)*)")

// word matches the name of a subcommand.
var word = regexp.MustCompile(`^[a-z]([a-z-]|-[0-9])*[a-z0-9]$`)

// A passage is a text with its position. In code every "softrdma" is the command.
type passage struct {
	where, text string
	code        bool
}

// goTexts returns the string literals of all Go files except tests.
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

// markdown returns the lines of a document that show commands: `code` and code blocks.
// Prose uses the name softrdma as well.
func markdown(t *testing.T, path string) (all []passage) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inBlock := false
	paragraph, begin := "", 0
	endParagraph := func() { // a code span may continue on the next line
		for k, code := range strings.Split(paragraph, "`") {
			if k%2 == 1 {
				all = append(all, passage{path + ":" + strconv.Itoa(begin), code, true})
			}
		}
		paragraph = ""
	}
	for i, line := range strings.Split(string(b), "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence || strings.TrimSpace(line) == "":
			endParagraph()
		case inBlock:
			all = append(all, passage{path + ":" + strconv.Itoa(i+1), line, true})
		default:
			if paragraph == "" {
				begin = i + 1
			}
			paragraph += line + " "
		}
		if fence {
			inBlock = !inBlock
		}
	}
	endParagraph()
	return all
}

// wrongInvocation says what is wrong with the words after "softrdma" in a command line,
// or returns "".
func wrongInvocation(root *cobra.Command, words []string) string {
	cmd := root
	for i, w := range explaincommand.Arguments(words) {
		w = strings.TrimRight(w, ".:!?")
		if name, _, _ := strings.Cut(w, "="); strings.HasPrefix(w, "-") {
			switch {
			case w == "--" || name == "--help" || name == "-h":
				return "" // arguments of another program, or cobra's own flags
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

// No text names a command or a flag that does not exist.
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

// quoted reports whether "softrdma" in a sentence is the command and not the project:
// it is in quotes, begins an indented line of an example, or is followed by a command.
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
	for _, name := range []string{"devices", "explain", "pingpong", "rping", "perf", "demo", "capture"} {
		c, _, err := newRootCommand().Find([]string{name})
		if err != nil || c.Flag("json") == nil {
			t.Errorf("%s prints results and has no --json: %v", name, err)
		}
	}
}

func TestExitCodesMatchExplain(t *testing.T) {
	for n, meaning := range explain.ExitCodes {
		words := strings.ToLower(strings.TrimSuffix(meaning, "."))
		if !regexp.MustCompile(`(?m)^\s*` + strconv.Itoa(n) + `\s+` + regexp.QuoteMeta(words)).MatchString(strings.ToLower(cli.ExitCodesText)) {
			t.Errorf("%d: expected %q in\n%s", n, words, cli.ExitCodesText)
		}
	}
}
