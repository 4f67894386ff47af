package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/internal/testenv"
)

// pthread_sigmask moved into libc.so.6 in glibc 2.32.
func TestWhatALibraryNeedsIsNamed(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		testenv.Lacks(t, "gcc")
	}
	dir := t.TempDir()
	build := func(name, source string, flags ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".c", []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append(flags, "-shared", "-fPIC", "-o", path, path+".c")
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return path
	}
	old := build("old.so", `#include <unistd.h>
int f(void) { return getpid(); }`)
	if err := check(old, "libc.so.6"); err != nil {
		t.Error(err)
	}
	newer := build("new.so", `#include <signal.h>
int f(sigset_t *s) { return pthread_sigmask(SIG_BLOCK, s, 0); }`)
	if err := check(newer, ""); err == nil || !strings.Contains(err.Error(), "needs pthread_sigmask of glibc 2.32, expected at most 2.28") {
		t.Errorf("found %v", err)
	}
	more := build("more.so", "#include <math.h>\ndouble f(double x) { return cos(x); }", "-Wl,--no-as-needed", "-lm")
	if err := check(more, "libc.so.6"); err == nil || !strings.Contains(err.Error(), "libm.so.6") {
		t.Errorf("found %v", err)
	}
	bare := build("bare.so", `int f(void) { return 1; }`, "-nostdlib")
	if err := check(bare, ""); err == nil {
		t.Error("a library without glibc passed")
	}
	moved := build("moved.so", `#include <dlfcn.h>
#include <unistd.h>
#pragma weak dlopen
void *f(void) { return dlopen && getpid() ? dlopen("x", 1) : 0; }`)
	if err := unversion(moved, "../glibc.h"); err != nil {
		t.Error(err)
	}
	if found := versionsOf(t, moved); found["dlopen"] != "" || !strings.HasPrefix(found["getpid"], "GLIBC_") {
		t.Errorf("found %v", found)
	}
	if err := check(filepath.Join(dir, "none.so"), ""); err == nil {
		t.Error("a missing file passed")
	}
}

// versionsOf returns the versions of the symbols that a library does not define.
func versionsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	library, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF {
			all[s.Name] = s.Version
		}
	}
	return all
}
