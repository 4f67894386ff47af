package explain

import (
	"fmt"
	"io"
	"os"
	"strings"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/explain"
)

// isLog reports whether standard input is a file or a pipe, rather than a terminal or /dev/null.
func isLog(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	s, err := f.Stat()
	return err == nil && (s.Mode().IsRegular() || s.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0)
}

// sayWaiting says what the command waits for, unless standard input is a file.
func sayWaiting(w io.Writer, in io.Reader) {
	if s, err := in.(*os.File).Stat(); err == nil && !s.Mode().IsRegular() {
		fmt.Fprintln(w, "softrdma: reading a log from standard input (explain --list lists the names)")
	}
}

// A finding is what lines of a log say, in JSON.
type finding struct {
	Lines   []int    `json:"lines"`
	Count   int      `json:"count"`
	Text    string   `json:"text"`
	Entries []record `json:"entries"`
}

// explainLog explains what the lines of a log say about failures.
func explainLog(out io.Writer, in io.Reader, asJSON bool) error {
	found, lines, err := explain.Log(in)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	if asJSON {
		all := make([]finding, len(found))
		for i, f := range found {
			all[i] = finding{f.Lines, f.Count, f.Text, records(f.Entries)}
		}
		return cli.WriteJSON(out, all)
	}
	if len(found) == 0 {
		fmt.Fprintf(out, "None of the %d lines reports a failure of RDMA that softrdma explain knows.\n", lines)
		return nil
	}
	printed := make(map[string]bool)
	for i, f := range found {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s: %s\n", where(f), f.Text)
		for _, e := range f.Entries {
			if key := string(e.Kind) + e.Name; printed[key] {
				fmt.Fprintf(out, "%s (%s): see above\n", e.Name, e.Label())
			} else {
				printed[key] = true
				printEntry(out, e)
			}
		}
	}
	return nil
}

// where names the lines of a finding.
func where(f *explain.Finding) string {
	numbers := strings.Trim(fmt.Sprint(f.Lines), "[]")
	switch more := f.Count - len(f.Lines); {
	case f.Count == 1:
		return "line " + numbers
	case more > 0:
		return fmt.Sprintf("lines %s and %d more", strings.ReplaceAll(numbers, " ", ", "), more)
	}
	return "lines " + strings.ReplaceAll(numbers, " ", ", ")
}
