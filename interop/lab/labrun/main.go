//go:build interop && linux

// Labrun boots the interop lab and runs the lines of its standard input: "a COMMAND" and "b COMMAND" in a guest,
// "host COMMAND" in the lab's network on the host, all through a shell. The lab ends with the input.
//
//	go run -tags interop ./interop/lab/labrun -guests 2
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"softrdma/interop/lab"
)

func main() {
	guests := flag.Int("guests", 1, "how many guests to boot, 1 or 2")
	timeLimit := flag.Duration("timeout", 2*time.Minute, "how long a command may take")
	flag.Parse()
	if err := run(*guests, *timeLimit); err != nil {
		fmt.Fprintln(os.Stderr, "labrun:", err)
		os.Exit(1)
	}
}

func run(guests int, timeLimit time.Duration) error {
	began := time.Now()
	l, err := lab.Open(context.Background(), guests, lab.TestProcessor)
	if err != nil {
		return err
	}
	defer l.Close(false)
	fmt.Printf("labrun: up after %v, kernel %s, files in %s\n", time.Since(began).Round(time.Millisecond), l.Kernel.Version, l.Dir())
	// A line that ends in & runs in the background.
	var background sync.WaitGroup
	defer background.Wait()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		rest, inBackground := strings.CutSuffix(line, "&")
		if inBackground {
			background.Go(func() { one(l, rest, timeLimit) })
		} else {
			one(l, rest, timeLimit)
		}
	}
	return nil
}

func one(l *lab.Lab, line string, timeLimit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	began := time.Now()
	where, command, _ := strings.Cut(line, " ")
	var out string
	var err error
	if where == "host" {
		var all []byte
		all, err = l.Host(ctx, "sh", "-c", command).CombinedOutput()
		out = string(all)
	} else {
		err = fmt.Errorf("no guest %q", where)
		for _, g := range l.Guests {
			if g.Name == where {
				var r lab.Output
				r, err = g.Run(ctx, "sh", "-c", command)
				out = r.Stdout + r.Stderr
			}
		}
	}
	fmt.Printf("%s# %s\n%s", where, command, out)
	if err != nil {
		fmt.Printf("error: %v\n", err)
	}
	fmt.Printf("-- %v\n", time.Since(began).Round(time.Millisecond))
}
