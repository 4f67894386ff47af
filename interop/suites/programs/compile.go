//go:build interop && linux

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"
)

// exchangeSource is an MPI program that checks what it receives.
//
//go:embed testdata/exchange.c
var exchangeSource string

// serverSource is a server of HTTP for one request.
//
//go:embed testdata/serve.c
var serverSource string

// glooSource is a program of gloo's collective operations that checks what it receives.
//
//go:embed testdata/gloo.cc
var glooSource string

// compile makes the executable of a program that is compiled here.
func (r *runner) compile(ctx context.Context, p *program) error {
	if p.compiler == "" {
		return nil
	}
	language := "c"
	if p.compiler == "g++" {
		language = "c++"
	}
	line := []string{"-O1", "-Wall", "-x", language, "-o", strings.Replace(p.binary, logFolder, r.logs, 1), "-"}
	c := exec.CommandContext(ctx, p.compiler, append(line, p.libraries...)...)
	c.Stdin = strings.NewReader(p.source)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", p.compiler, err, out)
	}
	return nil
}
