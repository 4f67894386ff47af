//go:build interop && linux

package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rights prints what the system lets a container do, and the device files that it has.
const rights = "grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; id -u; ls /dev; cat /proc/self/cgroup | wc -l"

func TestContainersGetNoRightsWithADevice(t *testing.T) {
	if !inside(t) {
		return
	}
	e := newEngine(t)
	expected, err := e.run(hostImage, nil, rights)
	if err != nil {
		t.Fatalf("%v: %s", err, expected)
	}
	for _, device := range [][]string{auto, shared} {
		if found, err := e.run(hostImage, device, rights); err != nil || found != expected {
			t.Errorf("%q: %v, expected the rights of other containers:\n%s\nfound:\n%s", device, err, expected, found)
		}
	}
}

// escape tries to change what a container gets from its host, as the container's root, and to start a
// program with another user's rights from what it can write to.
const escape = `cd /opt/softrdma || exit 1
touch x 2>/dev/null && echo wrote a file
echo x 2>/dev/null >preload.so && echo wrote to the library
rm -f softrdma 2>/dev/null; test -e softrdma || echo removed the command
mount -o remount,rw /opt/softrdma 2>/dev/null && echo mounted it again
cd /opt/softrdma-shared 2>/dev/null || exit 0
cp /bin/sleep s && chmod 4755 s && ./s 0 2>/dev/null && echo executed a set-user-ID program
mknod d c 1 3 2>/dev/null && echo x 2>/dev/null >d && echo wrote to a device
exit 0`

func TestAttackFilesOfContainersStay(t *testing.T) {
	if !inside(t) {
		return
	}
	e := newEngine(t)
	before := contentsOf(t, filepath.Join(e.store, "files"))
	flags := strings.Fields(e.must(e.softrdma, "cdi", "flags", "--podman", "--store", e.store, "shared"))
	for _, device := range [][]string{auto, shared, flags} {
		if out, err := e.run(hostImage, device, escape); err != nil || out != "" {
			t.Errorf("%q: %v, expected no change, found: %s", device, err, out)
		}
	}
	if after := contentsOf(t, filepath.Join(e.store, "files")); after != before {
		t.Errorf("files of containers: expected %s, found %s", before, after)
	}
}

// contentsOf returns the sizes, modes and names of the files below a directory.
func contentsOf(t *testing.T, dir string) string {
	t.Helper()
	out, err := run(t, time.Minute, "find", dir, "-printf", "%m %s %U %T@ %P\n")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// vandalize does to the names in the shared folder what another user can: remove and replace those of
// others, and make more of the same kind that lead elsewhere.
const vandalize = `cd /opt/softrdma-shared
for name in *; do
	rm -f "$name" 2>/dev/null && echo "removed $name"
	mv "$name" gone 2>/dev/null && echo "renamed $name"
	for i in 1 2 3 4 5 6 7 8; do
		mkfifo "${name}_z$i" || ln -s /dev/zero "${name}_y$i"
		ln -s "$name" "${name}_x$i"; touch "${name}_w$i"
	done
done 2>/dev/null
ls | wc -l
exec sleep 60`

func TestAttackSharedFolderOfAnotherUser(t *testing.T) {
	if !inside(t) {
		return
	}
	e := newEngine(t)
	attacker := concat(shared, []string{"--user", "12345:12345", "--detach", "--name", "attacker"})
	// The server of the pair has published its name when the attacker comes.
	client := "sleep 3; " + writeClient
	e.server(hostImage, concat(shared, []string{"--env", "SOFTRDMA_SAME_HOST=require"}), writeServer)
	e.waitForNames()
	if out, err := e.run(hostImage, attacker, vandalize); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := e.client(hostImage, concat(shared, []string{"--env", "SOFTRDMA_SAME_HOST=require"}), client)
	if err != nil || !strings.Contains(out, written) {
		t.Errorf("beside an attacker: %v, expected %q, found:\n%s", err, written, out)
	}
	if log := e.must(append(e.podman, "logs", "attacker")...); strings.Contains(log, "removed") || strings.Contains(log, "renamed") || strings.TrimSpace(log) == "0" {
		t.Errorf("expected an attacker that finds names and cannot change them, found:\n%s", log)
	}
}

// TestAttackSharedFolderWithLinksToTheHost removes a folder in which a container has left links to
// files of the host.
func TestAttackSharedFolderWithLinksToTheHost(t *testing.T) {
	if !inside(t) {
		return
	}
	e := newEngine(t)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := "cd /opt/softrdma-shared && ln -s " + filepath.Dir(victim) + " dir && ln -s " + victim + " file && mkdir -p a/b && ln -s / a/b/root"
	if out, err := e.run(hostImage, shared, links); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e.must(e.softrdma, "cdi", "remove", "--output", "/run/cdi", "--store", e.store)
	if b, err := os.ReadFile(victim); err != nil || string(b) != "x" {
		t.Errorf("a file of the host: %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(e.store, "shared", "softrdma", "rdma")); !os.IsNotExist(err) {
		t.Errorf("the shared folder was not removed: %v", err)
	}
}
