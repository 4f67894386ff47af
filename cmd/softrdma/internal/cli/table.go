package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A Table has rows in columns, which are two spaces apart. Columns of numbers are aligned to
// the right, others to the left.
type Table struct {
	Indent string // before each line

	w table.Writer
}

// NewTable returns a table with a header, or without one if there are no arguments.
func NewTable(header ...any) *Table {
	t := &Table{w: table.NewWriter()}
	t.w.SetStyle(table.Style{Box: table.BoxStyle{PaddingRight: "  "}, Format: table.FormatOptions{Header: text.FormatDefault}})
	t.w.SuppressTrailingSpaces()
	if len(header) > 0 {
		t.w.AppendHeader(header)
	}
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...any) { t.w.AppendRow(cells) }

// Print prints the table.
func (t *Table) Print(out io.Writer) error {
	for line := range strings.Lines(t.w.Render() + "\n") {
		if _, err := fmt.Fprint(out, t.Indent, line); err != nil {
			return err
		}
	}
	return nil
}
