package exec

import (
	"bytes"
	"debug/elf"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ignoresPreload returns why the loader of a program ignores LD_PRELOAD, "" if it does not
// (ld.so(8), "Secure-execution mode").
func ignoresPreload(program string) string {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(program, &st) != nil || unix.Statfs(program, &fs) != nil || fs.Flags&unix.ST_NOSUID != 0 {
		return ""
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && n == 1 {
		return ""
	}
	switch n, err := unix.Getxattr(program, "security.capability", nil); {
	case st.Mode&unix.S_ISUID != 0 && int(st.Uid) != os.Getuid():
		return "it is set-user-ID"
	case st.Mode&unix.S_ISGID != 0 && st.Mode&unix.S_IXGRP != 0 && int(st.Gid) != os.Getgid():
		return "it is set-group-ID"
	case err == nil && n > 0 && os.Getuid() != 0:
		return "it has capabilities of its file"
	}
	return ""
}

// unfit returns why a program itself finds no device, "" if it may: the loader (PT_INTERP of elf(5)) preloads
// libraries, and softrdma's is for programs of glibc.
func unfit(program string) string {
	f, err := elf.Open(program)
	if err != nil {
		return "" // a script, for example
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader, err := io.ReadAll(p.Open())
		if err == nil && bytes.Contains(loader, []byte("/ld-musl-")) {
			return "its C library is musl, expected glibc"
		}
		return ""
	}
	return "it is linked statically"
}
