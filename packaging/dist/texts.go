package main

import (
	"context"
	"os"
	"path"
	"path/filepath"
)

// A file is a file of an archive.
type file struct {
	path       string // in the archive
	source     string // on this machine
	executable bool
	linux      bool // for Linux only
}

// shells are the shells with completions, and the names of their completion files.
var shells = []struct{ name, file string }{
	{"bash", "softrdma"}, {"zsh", "_softrdma"}, {"fish", "softrdma.fish"}, {"powershell", "softrdma.ps1"},
}

// texts returns the files of archives except the command. It generates manual pages and
// completions by running the command.
func (d *distribution) texts(ctx context.Context) ([]file, error) {
	list := []file{
		{path: "LICENSE", source: filepath.Join(d.root, "LICENSE")},
		{path: "README.md", source: filepath.Join(d.root, "packaging", "INSTALL.md")},
		{path: "systemd/softrdma.service", source: filepath.Join(d.root, "packaging", "systemd", "softrdma.service"), linux: true},
	}
	man := filepath.Join(d.out, "man", "man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return nil, err
	}
	if _, err := d.own(ctx, "man", man); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		list = append(list, file{path: path.Join("man/man1", p.Name()), source: filepath.Join(man, p.Name())})
	}
	for _, s := range shells {
		script, err := d.own(ctx, "completion", s.name)
		if err != nil {
			return nil, err
		}
		f := file{path: path.Join("completions", s.name, s.file), source: filepath.Join(d.out, "completions", s.name, s.file)}
		if err := os.MkdirAll(filepath.Dir(f.source), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(f.source, []byte(script+"\n"), 0o644); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// own builds and runs the command of these sources, including its man subcommand.
func (d *distribution) own(ctx context.Context, args ...string) (string, error) {
	return outputWith(ctx, []string{"CGO_ENABLED=0", "SOURCE_DATE_EPOCH=" + d.date}, d.root, "go", append([]string{"run", "-tags", "man", "-ldflags", "-X main.version=" + d.version, "./cmd/softrdma"}, args...)...)
}
