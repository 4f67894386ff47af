package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"softrdma/bench/compare"
)

// A report is the page that grows while bench measures.
type report struct {
	file   string // "" for none
	origin *compare.Origin
	gates  bool
	tables []*compare.Table
	plots  []compare.Plot
	err    error // of writing the page
}

// add adds a path that was measured.
func (r *report) add(t *compare.Table, plots []compare.Plot) error {
	r.tables, r.plots = append(r.tables, t), append(r.plots, plots...)
	r.write(r.tables)
	return r.err
}

// show writes the page with the table of a path that is being measured.
func (r *report) show(t *compare.Table) { r.write(append(r.tables[:len(r.tables):len(r.tables)], t)) }

func (r *report) write(tables []*compare.Table) {
	if r.file != "" && r.err == nil {
		r.err = writePage(r.file, func(w io.Writer) error { return compare.WriteHTML(w, r.origin, r.gates, tables, r.plots) })
	}
}

// origin returns where and how this process measures.
func origin(version string) *compare.Origin {
	host, _ := os.Hostname()
	words := append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
	for i, w := range words {
		if strings.ContainsAny(w, " \t\"") {
			words[i] = strconv.Quote(w)
		}
	}
	return &compare.Origin{
		Host: cmp.Or(host, "unnamed host"), System: fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, plural(runtime.NumCPU(), "processor")),
		Date: time.Now(), Version: version, Command: strings.Join(words, " "),
	}
}

// progressInterval is the time between two lines of progress.
const progressInterval = 10 * time.Second

// progress returns functions that show what is being measured, and how long the rest takes. A
// terminal has one line that changes, and everything else a line now and then.
func progress(notes io.Writer, path string, now func() time.Time) (show func(n, all int, what fmt.Stringer), done func()) {
	start := now()
	line := func(n, all int, what fmt.Stringer) string {
		s := fmt.Sprintf("%s %d/%d %v", path, n+1, all, what)
		if n > 0 {
			left := now().Sub(start) / time.Duration(n) * time.Duration(all-n)
			s += fmt.Sprintf(", %v left", left.Round(time.Second))
		}
		return s
	}
	if isTerminal(notes) {
		return func(n, all int, what fmt.Stringer) { fmt.Fprintf(notes, "\r\033[K%s", line(n, all, what)) },
			func() { fmt.Fprint(notes, "\r\033[K") }
	}
	due := start
	return func(n, all int, what fmt.Stringer) {
		if t := now(); !t.Before(due) {
			due = t.Add(progressInterval)
			fmt.Fprintln(notes, line(n, all, what))
		}
	}, func() {}
}
