//go:build interop && linux

package main

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestShellStartsEverySecondRankOnTheOtherHost(t *testing.T) {
	line := (&job{ranks: 4, apart: true, argv: []string{"echo rank"}}).inShell("f() { shift; sh -c \"$1\" | sed 's/^/other /'; }; f")
	out, err := exec.Command(line[0], line[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	want := []string{
		"other rank 1 4 " + glooFolder, "other rank 3 4 " + glooFolder,
		"rank 0 4 " + glooFolder, "rank 2 4 " + glooFolder,
	}
	if !slices.Equal(got, want) {
		t.Errorf("started %q, want %q", got, want)
	}
}

func TestShellFailsWhenOneOfItsRanksFails(t *testing.T) {
	for _, c := range []struct {
		ranks []string
		fails bool
	}{
		{[]string{"true", "true"}, false},
		{[]string{"false", "true"}, true},
		{[]string{"true", "false"}, true},
		{[]string{"sleep 1000", "false"}, true},
		{[]string{"true", "sh -c '" + together([]string{"true", "false"}) + "'"}, true},
	} {
		cmd := exec.Command("sh", "-c", together(c.ranks))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := wait(cmd); (err != nil) != c.fails {
			t.Errorf("%q: ended with %v, should fail: %t", c.ranks, err, c.fails)
		}
	}
}

func TestNeedOfAFileIsThatItExists(t *testing.T) {
	for _, c := range []struct {
		program string
		want    bool
	}{
		{"sh", true},
		{"no-such-program", false},
		{"/proc/self/status", true}, // not executable
		{"/no/such/file", false},
	} {
		if got := (need{c.program, "a package"}).installed(); got != c.want {
			t.Errorf("%s: installed is %t, want %t", c.program, got, c.want)
		}
	}
}
