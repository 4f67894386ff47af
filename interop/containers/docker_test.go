//go:build interop && linux

package containers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// dockerRelease has Docker 26, the first of Debian's that knows CDI.
const dockerRelease = "trixie"

// enterDocker gives a user land with Docker mounts of its own, and starts its daemon. $1 is the user land,
// $2 a directory for Docker, $3 the store of the host's files.
const enterDocker = `set -e
mount -t overlay none -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mkdir -p old var/lib/docker etc/docker
mount -t tmpfs none tmp
mkdir -p ".$3"
for dir in proc sys dev run; do mount --rbind /$dir $dir; done
mount --bind "$2/docker" var/lib/docker
mount --bind "$3" ".$3"
echo '{"features": {"cdi": true}, "storage-driver": "overlay2", "ip6tables": false}' >etc/docker/daemon.json
pivot_root . old
cd /
umount -l old
export PATH=/usr/sbin:/usr/bin
dockerd >/var/log/dockerd.log 2>&1 &
for i in $(seq 60); do docker version >/dev/null 2>&1 && exec sleep 600; sleep .5; done
cat /var/log/dockerd.log; exit 1`

func TestDockerGivesContainersADevice(t *testing.T) {
	if !*enabled {
		t.Skip("make containers runs it: it makes a user land of 900 MB with Docker, and an image")
	}
	land := func() (string, error) {
		return lab.UserLand(t.Context(), "docker-"+dockerRelease, dockerRelease, packages+",docker.io,docker-cli,iptables")
	}
	if os.Getenv(insideVariable) == "" {
		if _, err := land(); err != nil {
			lacks(t, err)
		}
	}
	if !insideWith(t, releases[0]) {
		return
	}
	e := newEngine(t) // for its specification and its store
	root, err := land()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"upper", "work", "root", "docker"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	daemon := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", enterDocker, "sh", root, dir, e.store)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(daemon.Process.Pid)
	// in runs a script in the mount namespace of the daemon.
	in := func(script string) (string, error) {
		return run(t, 2*time.Minute, "nsenter", "--mount=/proc/"+pid+"/ns/mnt", "--root=/proc/"+pid+"/root", "sh", "-c", "cd /; "+script)
	}
	for i := 0; ; i++ {
		out, err := in("docker version")
		if err == nil {
			break
		}
		if i == 60 {
			t.Fatalf("no Docker after 30 s: %v: %s", err, out)
		}
		time.Sleep(500 * time.Millisecond)
	}
	image, err := userLand(t.Context(), releases[0])
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, 2*time.Minute, "sh", "-c", `tar -C "$1" --exclude=./dev -c . | nsenter --mount=/proc/$2/ns/mnt --root=/proc/$2/root docker import - debian && nsenter --mount=/proc/$2/ns/mnt --root=/proc/$2/root docker network create rdma`,
		"sh", image, pid); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const docker = "docker run --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 --network rdma "
	hardened := " --read-only --cap-drop ALL --user 65534:65534 --security-opt no-new-privileges "
	for _, flags := range []string{"--device softrdma/rdma=auto", "--device softrdma/rdma=shared --env SOFTRDMA_SAME_HOST=require", "--device softrdma/rdma=auto" + hardened} {
		out, err := in(docker + flags + " --detach --name server debian " + writeServer + ` &&
			SERVER=$(docker inspect server --format '{{.NetworkSettings.Networks.rdma.IPAddress}}') &&
			` + docker + flags + " --rm --env SERVER=$SERVER debian sh -c '" + writeClient + "'")
		if err != nil || !strings.Contains(out, written) {
			t.Errorf("%s: %v, expected %q, found:\n%s", flags, err, written, out)
		}
		if out, err := in("docker rm --force server"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}
