//go:build interop && linux

// Programs runs the distribution's RDMA programs unchanged under softrdma exec, and writes the
// results into a page of the documentation.
//
//	make programs
//	go run -tags interop ./interop/suites/programs -run 'ib_write|suite'
//
// It runs in its own network namespaces and needs no root where users may create them. A program
// that is not installed fails the run, because the table would lack it; the error names the
// package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// engineDaemon is the engine with which the programs under an exec share a device.
const engineDaemon = "daemon"

func main() {
	softrdma := flag.String("softrdma", "bin/softrdma", "the command, built where the preloaded library was")
	page := flag.String("write", "", "page to write the table into")
	only := flag.String("run", "", "run only programs that match; nothing is written then")
	engine := flag.String("engine", "", "engine of softrdma exec: program or daemon (default that of the command)")
	repeats := flag.Int("repeat", 1, "how often each program of several ranks is run")
	logs := flag.String("logs", "", "folder for what the programs said (default a temporary one, kept where something fails)")
	flag.Parse()
	if !inside() {
		os.Exit(enter())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &runner{softrdma: *softrdma, engine: *engine, logs: *logs, repeats: *repeats}, *page, *only); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, r *runner, page, only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if r.softrdma, err = filepath.Abs(r.softrdma); err != nil {
		return err
	}
	if r.logs == "" {
		r.logs, err = os.MkdirTemp("", "softrdma-programs-")
	} else if err = os.MkdirAll(r.logs, 0o755); err == nil {
		r.logs, err = filepath.Abs(r.logs)
	}
	if err != nil {
		return err
	}
	programs := slices.DeleteFunc(list(), func(p program) bool { return !pattern.MatchString(p.name()) })
	if missing := notInstalled(programs); len(missing) > 0 {
		return fmt.Errorf("programs are not installed: apt-get install -y --no-install-recommends %s", strings.Join(missing, " "))
	}
	if r.net, err = newNetwork(ctx); err != nil {
		return err
	}
	defer r.net.close()
	var rows []row
	failed := 0
	for _, p := range programs {
		if ctx.Err() != nil {
			break
		}
		o := r.run(ctx, p)
		fmt.Println(o)
		if !o.ok() {
			failed++
		}
		rows = append(rows, o)
	}
	s, n := r.rdmaCore(ctx, pattern)
	failed += n + r.builtPrograms(ctx, pattern)
	if page != "" && only == "" && s.here != nil {
		if err := writePage(page, rows, s); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted")
	}
	if failed > 0 {
		return fmt.Errorf("%d failed; what they said is in %s", failed, r.logs)
	}
	return os.RemoveAll(r.logs)
}

// notInstalled returns the packages of the programs that are not installed.
func notInstalled(list []program) (packages []string) {
	for _, p := range list {
		for _, n := range append([]need{{p.client[0], p.pkg}}, p.needs...) {
			if !n.installed() && !slices.Contains(packages, n.pkg) {
				packages = append(packages, n.pkg)
			}
		}
	}
	return packages
}

// installed reports whether this machine has what a program needs.
func (n need) installed() bool {
	_, err := exec.LookPath(n.program)
	if filepath.IsAbs(n.program) {
		_, err = os.Stat(n.program) // which need not be executable
	}
	return err == nil
}
