package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// licencesName is the file with the licences of everything in the command.
const licencesName = "LICENSES"

// licences returns the licences and notices of the command, of Go and of the modules in a
// program.
func (d *distribution) licences(ctx context.Context, program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	listed, err := output(ctx, d.root, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}", "all")
	if err != nil {
		return nil, err
	}
	goroot, err := output(ctx, d.root, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for line := range strings.Lines(listed) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		dirs[module] = dir
	}
	var b bytes.Buffer
	b.WriteString("softrdma is under the Apache License, version 2.0 (on Debian: /usr/share/common-licenses/Apache-2.0).\nThe command contains the following.\n")
	if err := appendLicences(&b, "Go's standard library "+strings.TrimPrefix(info.GoVersion, "go"), goroot); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if err := appendLicences(&b, m.Path+" "+m.Version, dirs[m.Path]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// appendLicences appends the licence and notice files of a directory of sources.
func appendLicences(b *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", name, err)
	}
	found := false
	for _, e := range entries {
		begin := strings.ToUpper(e.Name())
		if i := strings.IndexAny(begin, ".-_"); i > 0 {
			begin = begin[:i]
		}
		if e.IsDir() || !slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, begin) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(b, "\n%s\n%s (%s)\n\n%s\n", strings.Repeat("-", 80), name, e.Name(), bytes.TrimSpace(text))
	}
	if !found {
		return fmt.Errorf("no licence of %s in %s", name, dir)
	}
	return nil
}
