//go:build interop && linux

package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// writeJobs writes the rows of programs of several ranks.
func writeJobs(b *bytes.Buffer, rows []row) {
	fmt.Fprintf(b, "Programs of several ranks. `mpirun` starts them on one device, or on two hosts with a device each.\n"+
		"The share is that of the bytes that the ranks sent each other, as the devices counted them. At least\n"+
		"%.0f %% must have passed. It is above 100 %% with headers of UCX and libfabric, and with messages of UD\n"+
		"that UCX repeats.\n\n"+
		"| package | program | over | ranks | result | share | |\n|---|---|---|---|---|---|---|\n", 100*leastShare)
	for _, r := range rows {
		j := r.program.job
		if j == nil {
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
}
