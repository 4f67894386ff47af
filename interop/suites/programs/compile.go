//go:build interop && linux

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// exchangeSource is an MPI program that checks what it receives.
//
//go:embed testdata/exchange.c
var exchangeSource string

// compile makes the executable of a program that is compiled here.
func (r *runner) compile(ctx context.Context, p *program) error {
	if p.compiler == "" {
		return nil
	}
	to := strings.Replace(programFile, logFolder, r.logs, 1) + filepath.Ext(p.compiler)
	c := exec.CommandContext(ctx, p.compiler, "-O1", "-Wall", "-x", "c", "-o", to, "-")
	c.Stdin = strings.NewReader(exchangeSource)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", p.compiler, err, out)
	}
	return nil
}
