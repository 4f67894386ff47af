//go:build interop && linux

package containers

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newUser makes a user with a range of further numbers, in copies of the files that name users. $1 is the
// user's home directory.
const newUser = `set -e
mkdir /run/users /run/user /run/user/64000
echo "rdma:x:64000:64000::$1:/bin/sh" >/run/users/passwd
echo rdma:200000:65536 | tee /run/users/subuid >/run/users/subgid
for file in passwd subuid subgid; do
	cat /etc/$file >>/run/users/$file
	mount --bind /run/users/$file /etc/$file
done
mkdir "$1"
chown 64000:64000 "$1" /run/user/64000
chmod 755 /run`

// rootless runs the script $1 as that user, without root's variables.
const rootless = `cd / && env -i HOME="$2" PATH=/usr/sbin:/usr/bin XDG_RUNTIME_DIR=/run/user/64000 setpriv --reuid 64000 --regid 64000 --clear-groups sh -c "$1"`

func TestRootlessContainersHaveADevice(t *testing.T) {
	if !*enabled {
		t.Skip("make containers runs it: the user's store holds copies of an image of 240 MB")
	}
	if !insideWith(t, releases[0]) {
		return
	}
	e := newEngine(t)
	root, err := userLand(t.Context(), releases[0])
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "home")
	e.must("sh", "-c", newUser, "sh", home)
	command := filepath.Join(filepath.Dir(home), "softrdma")
	e.must("install", "-m", "755", e.softrdma, command)
	e.must("chmod", "755", filepath.Dir(filepath.Dir(home)))
	image := filepath.Join(filepath.Dir(home), "image.tar")
	e.must("tar", "-C", root, "--exclude=./dev", "-c", "-f", image, ".")
	podman := "podman --runtime runc --cgroup-manager cgroupfs --storage-driver vfs "
	as := func(script string) (string, error) {
		return run(t, 3*time.Minute, "sh", "-c", rootless, "sh", script, home)
	}
	if out, err := as(podman + "import --quiet " + image + " debian"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct{ name, flags string }{
		{"root's specification", "--network host --device softrdma/rdma=auto"},
		{"the user's own files", "--network host $(" + command + " cdi flags --podman)"},
		{"a network of the user's", "--network slirp4netns $(" + command + " cdi flags)"},
	} {
		out, err := as(podman + "run --rm --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 " + c.flags + " debian ibv_devices")
		if err != nil || !strings.Contains(out, "rxe0") {
			t.Errorf("%s: %v, expected rxe0, found:\n%s", c.name, err, out)
		}
	}
}
