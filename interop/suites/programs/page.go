//go:build interop && linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"softrdma/interop/suites/rdmacore"
)

// The lines that enclose the table in a page.
const (
	beginMark = "<!-- made by make programs: begin -->"
	endMark   = "<!-- made by make programs: end -->"
)

// writePage writes the results into a page.
func writePage(name string, rows []row, s suiteRun) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(page, []byte(beginMark))
	_, after, ended := bytes.Cut(rest, []byte(endMark))
	if !found || !ended {
		return fmt.Errorf("%s lacks the lines %q and %q", name, beginMark, endMark)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s\n\n", before, beginMark)
	fmt.Fprintf(&b, "perftest with `-F`, perftest and UCX with `-n %s` where nothing else is said. `exchange` is\n"+
		"[an MPI program](../interop/suites/programs/testdata/exchange.c) that checks what it receives, and\n"+
		"`gloo` [one of gloo's collective operations](../interop/suites/programs/testdata/gloo.cc) that does.\n\n", messages)
	writeRows(&b, rows, func(p *program) bool { return !p.iwarp && !p.memory && p.job == nil })
	writeJobs(&b, rows)
	b.WriteString("Two devices of one host, through shared memory (`softrdma exec --same-host require`):\n\n")
	writeRows(&b, rows, func(p *program) bool { return p.memory })
	b.WriteString("On an iWARP device (`softrdma exec --protocol iwarp`), with siw's provider:\n\n")
	writeRows(&b, rows, func(p *program) bool { return p.iwarp })
	writeSuite(&b, s)
	fmt.Fprintf(&b, "%s%s", endMark, after)
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// writeRows writes the rows of some programs. Runs of a program with the same result and reason
// share a line.
func writeRows(b *bytes.Buffer, rows []row, of func(p *program) bool) {
	b.WriteString("| package | program | options | result | |\n|---|---|---|---|---|\n")
	type group struct {
		key     [4]string
		options []string
	}
	var groups []*group
	for _, r := range rows {
		p := &r.program
		if !of(p) {
			continue
		}
		result, why := "✓", p.why
		switch {
		case r.err != nil:
			result, why = "**fails**", r.err.Error()
		case p.refused != "":
			result = "refused"
		}
		if p.apart {
			why = strings.TrimPrefix(why+"; between two hosts", "; ")
		}
		name, options := p.row()
		key := [4]string{p.pkg, name, result, why}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.key == key })
		if i < 0 {
			groups = append(groups, &group{key: key})
			i = len(groups) - 1
		}
		if options != "" {
			options = "`" + options + "`"
		} else {
			options = "none"
		}
		groups[i].options = append(groups[i].options, options)
	}
	for _, g := range groups {
		fmt.Fprintf(b, "| %s %s | `%s` | %s | %s | %s |\n", g.key[0], version(g.key[0]), g.key[1], strings.Join(g.options, ", "), g.key[2], g.key[3])
	}
	b.WriteString("\n")
}

// version returns the installed version of a package.
func version(pkg string) string {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", pkg).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

func writeSuite(b *bytes.Buffer, s suiteRun) {
	n, passed, failed := len(s.here), s.here.Count(rdmacore.Passed), s.here.Count(rdmacore.Failed)
	fmt.Fprintf(b, "rdma-core's own tests (rdma-core %s, `tests/run_tests.py --dev rxe0`): of %d, %d pass, %d are\n"+
		"skipped and %d fail; on Linux's Soft RoCE in the lab %d pass and %d fail. What it passes passes here.\n\n", version("rdma-core"), n, passed, n-passed-failed, failed,
		s.rxe.Count(rdmacore.Passed), s.rxe.Count(rdmacore.Failed))
	b.WriteString("| tests | why skipped, in their words | and in ours |\n|---|---|---|\n")
	reasons := map[string]int{}
	for name, result := range s.here {
		switch result {
		case rdmacore.Failed:
			fmt.Fprintf(b, "| `%s` | **fails** | |\n", name)
		case rdmacore.Passed:
		default:
			reasons[result]++
		}
	}
	var names []string
	for r := range reasons {
		names = append(names, r)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := reasons[b] - reasons[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, r := range names {
		fmt.Fprintf(b, "| %d | %s | %s |\n", reasons[r], r, skipped(r))
	}
	b.WriteString("\n")
}
