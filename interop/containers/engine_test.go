//go:build interop && linux

package containers

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
)

var (
	enabled = flag.Bool("containers", false, "run the tests with images of several releases, which download 200 MB for each and take some minutes")
	command = flag.String("command", "", "`PATH` of the softrdma command to test; without it one is built")
)

// insideVariable marks a process that inside started, and has the path of the command.
const insideVariable = "SOFTRDMA_TEST_CONTAINERS"

// prepare gives a test mounts, processes and a network of its own. Programs that are left end with it.
const prepare = `set -e
mount -t proc none /proc
mount -t tmpfs none /run
mkdir /run/cdi
ip link set lo up
exec "$@"`

// inside runs the calling test again in namespaces of its own, and reports whether this is that process.
// The caller must return at once if it is not.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return true
	}
	if err := lab.InstallContainers(t.Context()); errors.As(err, new(*lab.LackError)) {
		lacks(t, err)
	} else if err != nil {
		t.Fatal(err)
	}
	path := *command
	if path == "" {
		path = buildCommand(t)
	}
	if !filepath.IsAbs(path) { // from the root of the repository
		path = filepath.Join("../..", path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", prepare, "sh", os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"}
	if *enabled {
		args = append(args, "-containers")
	}
	cmd := exec.CommandContext(t.Context(), "unshare", args...)
	cmd.Env = append(os.Environ(), insideVariable+"="+path)
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP:"):
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
	return false
}

func lacks(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip("SKIPPED: ", err)
}

// buildCommand builds softrdma with the preloaded library in it.
func buildCommand(t *testing.T) string {
	t.Helper()
	if out, err := run(t, 5*time.Minute, "make", "-C", "../..", "preload"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	path := filepath.Join(t.TempDir(), "softrdma")
	c := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", "kubernetes", "-o", path, "./cmd/softrdma")
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// An engine is podman with a store of its own, and the devices of softrdma.
type engine struct {
	t        *testing.T
	softrdma string   // the command
	store    string   // of the command
	podman   []string // podman, with the flags for this machine
	network  string
}

// image is what containers run: a path of a user land, or the name of an image.
type image string

// hostImage is the user land of this machine, which the lab has given its programs.
const hostImage image = "/"

// newEngine makes the devices known and a network for the containers.
func newEngine(t *testing.T) *engine {
	t.Helper()
	dir := t.TempDir()
	e := &engine{
		t: t, softrdma: os.Getenv(insideVariable), store: filepath.Join(dir, "store"), network: "rdma",
		podman: []string{"podman", "--root", filepath.Join(dir, "root"), "--runroot", "/run/containers", "--storage-driver", "overlay",
			"--runtime", "runc", "--cgroup-manager", "cgroupfs", "--network-config-dir", filepath.Join(dir, "networks")},
	}
	e.must(e.softrdma, "cdi", "generate", "--output", "/run/cdi", "--store", e.store)
	e.must(append(e.podman, "network", "create", e.network)...)
	t.Cleanup(func() {
		_, _ = run(t, time.Minute, append(e.podman, "rm", "--all", "--force", "--time", "0")...)
		// A container that is removed when it ends is cleaned up by a process of podman's that may still run.
		for range 100 {
			_, _ = run(t, time.Minute, "umount", filepath.Join(dir, "root", "overlay")) // podman leaves it mounted
			if os.RemoveAll(dir) == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	return e
}

// must runs a program, whose failure fails the test.
func (e *engine) must(args ...string) string {
	e.t.Helper()
	out, err := run(e.t, time.Minute, args...)
	if err != nil {
		e.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// args returns the command line that runs a script in a container. Limits of descriptors and processes are
// those that unprivileged machines allow to set.
func (e *engine) args(img image, flags []string, script string) []string {
	args := concat(e.podman, []string{"run", "--rm", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "--network", e.network}, flags)
	if filepath.IsAbs(string(img)) {
		return append(args, "--rootfs", string(img)+":O", "sh", "-c", script)
	}
	return append(args, string(img), "sh", "-c", script)
}

// run runs a script in a container and returns what it prints.
func (e *engine) run(img image, flags []string, script string) (string, error) {
	e.t.Helper()
	return run(e.t, time.Minute, e.args(img, flags, script)...)
}

// pair runs a server and a client in a container each. In the client's script $SERVER is the server's address.
func (e *engine) pair(img image, flags []string, server, client string) (string, error) {
	e.t.Helper()
	e.server(img, flags, server)
	defer e.stop("server")
	return e.client(img, flags, client)
}

// server starts a script in a container of the name server.
func (e *engine) server(img image, flags []string, script string) {
	e.t.Helper()
	e.must(e.args(img, concat([]string{"--detach", "--name", "server"}, flags), script)...)
}

// client runs a script in a container of its own.
func (e *engine) client(img image, flags []string, script string) (string, error) {
	e.t.Helper()
	addr := strings.TrimSpace(e.must(append(e.podman, "inspect", "server", "--format", "{{.NetworkSettings.Networks."+e.network+".IPAddress}}")...))
	return e.run(img, concat([]string{"--env", "SERVER=" + addr}, flags), script)
}

// stop ends a container.
func (e *engine) stop(name string) {
	_, _ = run(e.t, time.Minute, append(e.podman, "rm", "--force", "--ignore", "--time", "0", name)...)
}

// waitForNames waits until a device of a container has a name in the shared folder.
func (e *engine) waitForNames() {
	e.t.Helper()
	for range 300 {
		if names, err := os.ReadDir(filepath.Join(e.store, "shared", "softrdma", "rdma")); err == nil && len(names) > 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	e.t.Fatal("no device has a name in the shared folder after 30 s")
}

// run returns what a program prints, without podman's warnings.
func run(t *testing.T, limit time.Duration, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	var out bytes.Buffer
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = 10 * time.Second
	err := c.Run()
	var kept strings.Builder
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, "level=warning") && !strings.Contains(line, "PIDs limit discarded") {
			kept.WriteString(line)
		}
	}
	return kept.String(), err
}
