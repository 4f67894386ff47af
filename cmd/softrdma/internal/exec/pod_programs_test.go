//go:build interop && linux

package exec

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// podScript is a pod: one network and PID namespace with an eth0, a file system that is read-only
// except for the volume of the socket, and processes of one user without capabilities. The program
// starts before the daemon, and another one when the probe has succeeded.
const podScript = `
set -e
ip link set lo up
ip link add eth0 type veth peer name eth1
ip addr add 10.99.0.1/24 dev eth0
ip link set eth0 up
ip link set eth1 up
awk '{ print $5 }' /proc/self/mountinfo | while read -r at; do
	mount -o remount,bind,ro "$at" 2>/dev/null || : # another mount hides it
done
mount -t tmpfs tmpfs /run
mkdir /run/bin /run/softrdma
cp "$PROGRAM" /run/bin/softrdma
mount -o remount,bind,ro /run
mount -t tmpfs -o mode=755,uid=65532,gid=65532 tmpfs /run/softrdma
export PATH=/run/bin:/usr/bin:/bin
inside() {
	env -i PATH=$PATH setpriv --reuid=65532 --regid=65532 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
}
cd /
for d in / /tmp /dev/shm /run; do
	mkdir $d/softrdma-pod 2>/dev/null && exit 8
done
inside $COMMAND & program=$!
sleep 1
inside softrdma $DAEMON & daemon=$!
for i in $(seq 100); do
	inside $PROBE && ready=yes && break
	sleep 0.1
done
[ -n "$ready" ] || exit 7
for i in $(seq 20); do
	inside $COMMAND 10.99.0.1 && measured=yes && break
	sleep 0.5
done
[ -n "$measured" ] || exit 6
wait $program
echo the program ended
`

// flow returns the words of the one list of the example pod that begins with a pattern.
func flow(t *testing.T, pod []byte, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)`+pattern+`(.*)\]$`).FindAllSubmatch(pod, -1)
	if len(m) != 1 {
		t.Fatalf("expected one line %q in pod.yaml, found %d", pattern, len(m))
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(m[0][1]), ",", ""), `"`, "")
}

// The lines of the example pod for a C program work as they are written.
func TestProgramsRunInTheExamplePod(t *testing.T) {
	testenv.Root(t, "mounts a read-only file system")
	testenv.Programs(t, "unshare", "ip", "setpriv", "awk", "ib_write_bw")
	pod, err := os.ReadFile("../../../../packaging/kubernetes/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", podScript)
	cmd.Env = append(os.Environ(), "PROGRAM="+clitest.Command(t),
		"COMMAND="+flow(t, pod, `^    #   command: \[`), "DAEMON=daemon "+flow(t, pod, `^      args: \[daemon,`), "PROBE="+flow(t, pod, `^          command: \[`))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the program ended") || strings.Count(string(out), "BW average") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
