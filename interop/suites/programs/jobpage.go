//go:build interop && linux

package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// writeJobs writes the rows of programs of several ranks.
func writeJobs(b *bytes.Buffer, rows []row) {
	fmt.Fprintf(b, "Programs of several ranks. `mpirun`, or a shell for gloo, starts them on one device, or on two hosts\n"+
		"with a device each.\n"+
		"The share is that of the bytes that the ranks sent each other, as the devices counted them. At least\n"+
		"%.0f %% must have passed. It is above 100 %% with headers of UCX and libfabric, and with messages of UD\n"+
		"that UCX repeats.\n\n"+
		"| package | program | over | ranks | result | share | |\n|---|---|---|---|---|---|---|\n", 100*leastShare)
	for _, r := range rows {
		j := r.program.job
		if j == nil || j.suite != "" {
			continue
		}
		result, share, why := "✓", "", r.program.why
		switch {
		case r.err != nil:
			result, why = "**fails**", r.err.Error()
		case r.program.refused != "":
			result = "refused"
		}
		if r.share > 0 {
			share = fmt.Sprintf("%.0f %%", 100*r.share)
		}
		argv := append([]string{filepath.Base(j.argv[0])}, j.argv[1:]...)
		fmt.Fprintf(b, "| %s %s | `%s` | %s | %s | %s | %s | %s |\n", r.program.pkg, version(r.program.pkg), strings.Join(argv, " "), j.over, j.place(), result, share, why)
	}
	b.WriteString("\n")
	writeSuites(b, rows)
}

// writeSuites writes the rows of the suites of others. Programs of a suite with the same result
// share a line.
func writeSuites(b *bytes.Buffer, rows []row) {
	fmt.Fprintf(b, "Suites of others, of several ranks as well. A suite passes by its own checks. At least %.0f %% of the\n"+
		"bytes that MPI's ranks sent each other, as Open MPI counted them, must have passed through devices.\n"+
		"OpenSHMEM counts none: UCX must have opened nothing but transports of verbs, and each rank's device\n"+
		"must have received payload.\n\n"+
		"| suite | over | ranks | passed | |\n|---|---|---|---|---|\n", 100*leastShare)
	type line struct {
		job         *job
		passed, all int
		notes       []string
	}
	var lines []*line
	for _, r := range rows {
		j := r.program.job
		if j == nil || j.suite == "" {
			continue
		}
		i := slices.IndexFunc(lines, func(l *line) bool {
			return l.job.suite == j.suite && l.job.over == j.over && l.job.place() == j.place()
		})
		if i < 0 {
			i, lines = len(lines), append(lines, &line{job: j})
		}
		l, note := lines[i], r.program.why
		l.all++
		switch {
		case j.absent != "":
			note = j.absent
		case r.err != nil:
			note = fmt.Sprintf("`%s` **fails**: %v", j.title(), r.err)
		default:
			l.passed++
		}
		if note != "" && !slices.Contains(l.notes, note) {
			l.notes = append(l.notes, note)
		}
	}
	for _, l := range lines {
		fmt.Fprintf(b, "| %s | %s | %s | %d of %d | %s |\n", l.job.suite, l.job.over, l.job.place(), l.passed, l.all, strings.Join(l.notes, "; "))
	}
	b.WriteString("\n")
}
