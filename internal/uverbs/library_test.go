//go:build linux

package uverbs

import (
	"bytes"
	stdcontext "context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"softrdma/internal/ondemand"
	"softrdma/internal/testenv"
)

// library builds the preloaded library, once for each test that wants it.
func library(t testing.TB) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		testenv.Lacks(t, cc)
	}
	src, err := filepath.Glob("../../preload/src/*.c")
	if err != nil || len(src) == 0 {
		t.Fatal("no sources of the preloaded library", err)
	}
	out := filepath.Join(t.TempDir(), "preload.so")
	args := append([]string{"-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-include", "../../preload/glibc.h", "-fPIC", "-shared",
		"-fvisibility=hidden", "-Wl,--version-script=../../preload/src/preload.map", "-o", out}, src...)
	if b, err := exec.Command(cc, append(args, "-ldl")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return out
}

// command makes a program that uses a server's device.
func command(ctx stdcontext.Context, t testing.TB, s *Server, lib string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		testenv.Lacks(t, args[0])
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), s.Environment(lib)...)
	out := &bytes.Buffer{}
	c.Stdout, c.Stderr = out, out
	return c, out
}

// Environment returns the environment of the server's programs.
func (s *Server) Environment(lib string) []string {
	return (&ondemand.Environment{Library: lib, Socket: s.Socket(), Tree: s.Tree()}).Variables()
}
