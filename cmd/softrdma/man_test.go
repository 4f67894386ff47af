//go:build man

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tables of long texts keep their lines in the manual pages: they are between .EX and .EE.
func TestManualKeepsTables(t *testing.T) {
	dir := t.TempDir()
	root := newRootCommand()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	tables := 0
	for _, c := range allCommands(newRootCommand()) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if os.IsNotExist(err) {
			continue // a hidden command or a topic
		}
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer(`\-`, "-", `\\`, `\`).Replace(string(page))
		for line := range strings.SplitSeq(c.Long, "\n") {
			if !strings.HasPrefix(line, "  ") {
				continue
			}
			tables++
			before, _, found := strings.Cut(text, strings.TrimSpace(line)+"\n")
			if !found || strings.LastIndex(before, ".EX") <= strings.LastIndex(before, ".EE") {
				t.Errorf("%s: expected the line %q of a table between .EX and .EE of the manual page", c.CommandPath(), line)
			}
		}
	}
	if tables == 0 {
		t.Error("no command has a table")
	}
}

func TestManualHasStatusEnvironmentAndFiles(t *testing.T) {
	dir := t.TempDir()
	root := newRootCommand()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"softrdma.1", "softrdma-fabric-down.1"} {
		b, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, title := range []string{"EXIT STATUS", "ENVIRONMENT", "FILES"} {
			if !strings.Contains(string(b), ".SH "+title+"\n") {
				t.Errorf("%s has no section %s", page, title)
			}
		}
	}
}
