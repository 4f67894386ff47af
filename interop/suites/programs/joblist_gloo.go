//go:build interop && linux

package main

import (
	"fmt"
	"os"
	"strings"
)

// glooFolder is where gloo's ranks leave each other their addresses.
const glooFolder = "FOLDER/gloo-ranks"

// gloo returns a program of gloo's collective operations. gloo has no launcher.
func gloo() []program {
	const binary = "FOLDER/gloo"
	w := way{launcher: shell, pkg: "libgloo0", over: "ibverbs, RC"}
	var all []program
	for _, ranks := range []int{2, 4} {
		for _, p := range w.places(job{ranks: ranks, argv: []string{binary}, payload: exchangePayload, prepare: emptyGlooFolder}) {
			p.want = fmt.Sprintf("%d ranks exchanged", ranks)
			p = p.compiled("g++", "g++", glooSource, binary).linked("-lgloo", "-libverbs")
			all = append(all, p.needing("/usr/include/gloo/transport/ibverbs/device.h", "libgloo-dev"))
		}
	}
	return all
}

// emptyGlooFolder makes the folder of the ranks, without what other ranks have left.
func emptyGlooFolder(dir string) error {
	folder := strings.Replace(glooFolder, logFolder, dir, 1)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	return os.Mkdir(folder, 0o755)
}

// inShell returns the command line of a shell that starts the ranks. Each of them gets its number,
// the number of ranks and the folder. The agent starts those of the other host.
func (j *job) inShell(agent string) []string {
	var at [len(hosts)][]string
	for rank := range j.ranks {
		host := 0
		if j.apart {
			host = rank % len(hosts)
		}
		at[host] = append(at[host], fmt.Sprintf("%s %d %d %s", j.argv[0], rank, j.ranks, glooFolder))
	}
	if j.apart {
		at[0] = append(at[0], fmt.Sprintf("%s %s '%s'", agent, hosts[1], together(at[1])))
	}
	return []string{"sh", "-c", together(at[0])}
}

// together returns a script that runs commands at the same time, and fails as soon as one of them
// fails: the ranks that are left may wait for it forever.
func together(commands []string) string {
	var b strings.Builder
	b.WriteString(`trap "exit 1" TERM; `)
	for _, c := range commands {
		fmt.Fprintf(&b, `{ %s || { kill $$; false; }; } & all="$all $!"; `, c)
	}
	return b.String() + "for p in $all; do wait $p || exit 1; done"
}
