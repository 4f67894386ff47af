package exec

import (
	"debug/elf"
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

// static reports whether a program has no loader (PT_INTERP of elf(5)), which would preload libraries.
func static(program string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false // a script, for example
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}
