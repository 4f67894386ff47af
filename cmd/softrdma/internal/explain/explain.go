// Package explain is the command that prints the entries of package internal/explain.
package explain

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/explain"
)

const long = `Explains a status, reason, NAK or event: what causes it, where to look, the usual
remedy, and the clause of the specification that requires it.

QUERY is a name or a part of one, words of its description, a number from a
message, a packet or a program, in decimal or as 0xNN, or a whole line that a
program or the kernel printed. For a number it prints each meaning: completion
status, reject reason, errno, exit code and so on; in a line the words before a
number say which it is. Without QUERY it lists all names.

If standard input is a file or a pipe and there is no QUERY, or QUERY is -, it reads
a log, and explains what the lines of perftest, UCX, NCCL, libfabric, Open MPI,
libibverbs, the kernel and softrdma say about failures. It prints each once, with the
numbers of the lines. --list prints the names whatever standard input is.

With --json it prints an array of objects: kind, name, number, label (kind and
number as they are usually printed), meaning, cause, look, remedy, clause and
see (names of other entries); empty fields are left out. For a log the array has
lines (numbers of the first lines), count, text (of the first line) and entries.`

const example = `  softrdma explain IBV_WC_RETRY_EXC_ERR
  softrdma explain retry exceeded
  softrdma explain 12
  softrdma explain 28
  softrdma explain 0x62
  softrdma explain -19
  softrdma explain "Failed status 12: wr_id 0 syndrom 0x81"
  softrdma explain --list | grep -i key
  softrdma explain < job.log
  dmesg | softrdma explain -`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use: "explain [QUERY...]", Short: "Explain a status, reason, NAK, event, number or log, and its remedy",
		Long: long, Example: example, ValidArgsFunction: completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, in := cmd.OutOrStdout(), cmd.InOrStdin()
			switch {
			case all && len(args) > 0:
				return cli.UsageErrorf("--list prints all names: expected no QUERY, found %q", strings.Join(args, " "))
			case slices.Equal(args, []string{"-"}):
				return explainLog(out, in, asJSON)
			case !all && len(args) == 0 && isLog(in):
				sayWaiting(cmd.ErrOrStderr(), in)
				b := bufio.NewReader(in)
				if _, err := b.Peek(1); err == nil { // an empty one is that of a script, or of CI
					return explainLog(out, b, asJSON)
				}
			}
			return explainQuery(out, args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().BoolVar(&all, "list", false, "list all names")
	return cmd
}

// explainQuery explains a query, or lists all names if there is none.
func explainQuery(out io.Writer, args []string, asJSON bool) error {
	entries := explain.All()
	if len(args) > 0 {
		var err error
		if entries, err = lookup(args); err != nil {
			return fmt.Errorf("%w (softrdma explain --list lists all)", err)
		}
	}
	switch {
	case asJSON:
		return cli.WriteJSON(out, records(entries))
	case len(args) == 0:
		return list(out, entries)
	}
	for i, e := range entries {
		if i > 0 {
			fmt.Fprintln(out)
		}
		printEntry(out, e)
	}
	return nil
}

// negative matches a negative number, which the flag parser takes for flags.
var negative = regexp.MustCompile(`^-[0-9]+[,.:;)]*$`)

// Arguments returns the arguments of the softrdma command so that a negative number after
// "explain" is a part of the query. The flags come first then.
func Arguments(args []string) []string {
	if len(args) < 2 || args[0] != "explain" || slices.Contains(args, "--") || !slices.ContainsFunc(args, negative.MatchString) {
		return args
	}
	flags, query := args[:1:1], []string{"--"}
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "-") && !negative.MatchString(a) {
			flags = append(flags, a)
		} else {
			query = append(query, a)
		}
	}
	return append(flags, query...)
}

// A record is an entry in JSON.
type record struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Number  int      `json:"number"`
	Label   string   `json:"label"`
	Meaning string   `json:"meaning"`
	Cause   string   `json:"cause,omitempty"`
	Look    string   `json:"look,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
	Clause  string   `json:"clause,omitempty"`
	See     []string `json:"see,omitempty"`
}

func records(entries []explain.Entry) []record {
	list := make([]record, len(entries))
	for i := range entries {
		e := &entries[i]
		list[i] = record{string(e.Kind), e.Name, e.Number, e.Label(), e.Meaning, e.Cause, e.Look, e.Remedy, e.Clause, e.See}
	}
	return list
}

// lookup looks the arguments up as one query, and if nothing matches as one query each.
func lookup(args []string) ([]explain.Entry, error) {
	found, err := explain.Lookup(strings.Join(args, " "))
	if !errors.As(err, new(*explain.NotFoundError)) || len(args) == 1 {
		return found, err
	}
	for _, a := range args {
		entries, each := explain.Lookup(a)
		if each != nil {
			return nil, err
		}
		found = append(found, entries...)
	}
	return found, nil
}

func printEntry(out io.Writer, e explain.Entry) {
	fmt.Fprint(out, wrap(e.String(), outputWidth, fieldIndent))
}

func list(out io.Writer, all []explain.Entry) error {
	for len(all) > 0 {
		t, kind := cli.NewTable(), all[0].Kind
		for ; len(all) > 0 && all[0].Kind == kind; all = all[1:] {
			t.Row(all[0].Kind, all[0].Name, all[0].Meaning)
		}
		if err := t.Print(out); err != nil {
			return err
		}
		if len(all) > 0 {
			fmt.Fprintln(out)
		}
	}
	return nil
}

const (
	outputWidth = 80
	fieldIndent = 12 // column of a field's text
)

// wrap breaks lines longer than width between words. A field is two spaces, a name and
// a text that begins at column indent, where continuation lines begin as well.
func wrap(text string, width, indent int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "  ") || len(line) < indent {
			b.WriteString(line)
			continue
		}
		b.WriteString(line[:indent])
		column := indent
		for i, word := range strings.Fields(line[indent:]) {
			n := utf8.RuneCountInString(word)
			if column+1+n > width && i > 0 {
				b.WriteString("\n" + strings.Repeat(" ", indent))
				column = indent
			} else if i > 0 {
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += n
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// completeNames offers the names of entries, in lower case if the user types lower case.
func completeNames(_ *cobra.Command, _ []string, toComplete string) (names []string, d cobra.ShellCompDirective) {
	for _, e := range explain.All() {
		name := e.Name
		if !strings.HasPrefix(name, strings.ToUpper(toComplete)) {
			continue
		}
		if toComplete != strings.ToUpper(toComplete) {
			name = strings.ToLower(name)
		}
		names = append(names, name+"\t"+string(e.Kind))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
