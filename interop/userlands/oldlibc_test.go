//go:build interop && linux

package userlands

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
)

// oldLibc is the oldest glibc that mirrors still have, of Ubuntu 18.04, where dlopen and pthread_create are in
// files of their own and symbols must be in the file that a library names.
const (
	oldLibc    = "http://archive.ubuntu.com/ubuntu/pool/main/g/glibc/libc6_2.27-3ubuntu1_amd64.deb"
	oldLibcSum = "1e1eb86fd646aa68f7144ec692b837b6b352d215880c6a2d0c92c19d36938427"
)

// opens is a program that opens a device as libibverbs does. It has no start of the compiler's, which would need
// this machine's glibc.
const opens = `#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((force_align_arg_pointer)) void _start(void)
{
	DIR *d = opendir("/sys/class/infiniband");
	int fd = open("/dev/infiniband/uverbs0", O_RDWR);
	dprintf(1, "%s, %s\n", d ? "a directory" : "no directory", fd < 0 ? "no device" : "a device");
	_exit(0);
}
`

func TestProgramsOfAnOldCLibraryFindADevice(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED: the C library is one for amd64")
	}
	command := needed(t, "../../bin/softrdma", "run make preload build")
	testenv.Programs(t, "gcc", "dpkg")
	dir := t.TempDir()
	deb := filepath.Join(dir, "libc6.deb")
	download(t, oldLibc, oldLibcSum, deb)
	source := filepath.Join(dir, "opens.c")
	if err := os.WriteFile(source, []byte(opens), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"dpkg", "-x", deb, filepath.Join(dir, "root")},
		{"gcc", "-nostartfiles", "-include", "../../preload/glibc.h", "-o", filepath.Join(dir, "opens"), source},
	} {
		if out, err := run(t, time.Minute, args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Setenv("XDG_CACHE_HOME", dir)
	libraries := filepath.Join(dir, "root/lib/x86_64-linux-gnu")
	for _, engine := range []string{"daemon", "program"} {
		line := fmt.Sprintf(`ip link set lo up; eval "$(%s env -v -d 127.0.0.1 --engine %s)"; exec %s/ld-2.27.so --library-path %s %s/opens`,
			command, engine, libraries, libraries, dir)
		out, err := run(t, time.Minute, "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", line)
		if inProgram := strings.Contains(out, "is in the program"); err != nil || !strings.Contains(out, "a directory, a device\n") || inProgram != (engine == "program") {
			t.Errorf("%s: %v, found: %s", engine, err, out)
		}
	}
}

// download gets a file with a certain content.
func download(t *testing.T, address, sum, to string) {
	t.Helper()
	client := http.Client{Timeout: 2 * time.Minute}
	answer, err := client.Get(address)
	if err != nil {
		testenv.Lacks(t, err.Error())
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if found := fmt.Sprintf("%x", sha256.Sum256(b)); err != nil || found != sum {
		t.Fatalf("%s: %v, expected SHA-256 %s, found %s (%s)", address, err, sum, found, answer.Status)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
