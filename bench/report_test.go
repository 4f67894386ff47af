package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"softrdma/bench/compare"
)

type named string

func (n named) String() string { return string(n) }

func TestProgressOffATerminalIsALineNowAndThen(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	show, done := progress(&out, "loopback", func() time.Time { return now })
	for n := range 30 {
		show(n, 30, named("softrdma"))
		now = now.Add(time.Second)
	}
	done()
	want := "loopback 1/30 softrdma\nloopback 11/30 softrdma, 20s left\nloopback 21/30 softrdma, 10s left\n"
	if out.String() != want {
		t.Errorf("found\n%s, expected\n%s", out.String(), want)
	}
}

// fakeRows returns a row for each figure of the loopback and of the memory of one host.
func fakeRows() (rows []compare.Row) {
	for _, f := range compare.Figures(true) {
		rows = append(rows, compare.Row{Figure: f, Name: f.Name, Of: 123.4, Against: 123.4, Unit: "GB/s", Ratio: 12.34, Low: 11, High: 13})
	}
	return rows
}

func TestVerdictTableFitsATerminal(t *testing.T) {
	out := verdictTable("loopback", fakeRows())
	for _, line := range strings.Split(out, "\n") {
		if n := utf8.RuneCountInString(line); n > 110 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"1 MiB WRITE", "iperf3 with cubic", "faster, 12 ×", "VERDICT"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(strings.ToLower(out), "gate") || !strings.Contains(strings.ToLower(figureTable("loopback", fakeRows())), "gate") {
		t.Error("gates belong to --gates")
	}
}

func TestReportGrowsWithEachTable(t *testing.T) {
	r := &report{file: filepath.Join(t.TempDir(), "x.html"), origin: &compare.Origin{Host: "here"}}
	page := func() string {
		b, err := os.ReadFile(r.file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	r.show(&compare.Table{Path: "first", Rounds: 1})
	if s := page(); !strings.Contains(s, "first, rounds: 1<") || !strings.Contains(s, "here") {
		t.Error(s)
	}
	if err := r.add(&compare.Table{Path: "first", Rounds: 5}, nil); err != nil {
		t.Fatal(err)
	}
	r.show(&compare.Table{Path: "second", Rounds: 2})
	if s := page(); !strings.Contains(s, "first, rounds: 5") || !strings.Contains(s, "second, rounds: 2") || strings.Contains(s, "rounds: 1<") {
		t.Error(s)
	}
}
