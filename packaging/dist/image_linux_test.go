package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const image = "../../bin/softrdma-image.tar"

// A blob is a descriptor of a blob in an image (OCI image specification).
type blob struct {
	Digest   string
	Platform struct{ OS, Architecture string }
}

// An imageConfig is an image's configuration for container engines.
type imageConfig struct {
	Architecture string
	Config       struct {
		User         string
		Entrypoint   []string
		Env          []string
		ExposedPorts map[string]struct{}
		Labels       map[string]string
	}
}

// readImage returns the members of the image's archive.
func readImage(t *testing.T) map[string][]byte {
	t.Helper()
	f, err := os.Open(image)
	if err != nil {
		lacks(t, "bin/softrdma-image.tar: make image builds it")
	}
	defer f.Close()
	all := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func decode(t *testing.T, members map[string][]byte, name string, v any) {
	t.Helper()
	if kind, sum, ok := strings.Cut(name, ":"); ok {
		name = "blobs/" + kind + "/" + sum
	}
	if err := json.Unmarshal(members[name], v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// unpack returns the configuration and the files of the image for an architecture.
func unpack(t *testing.T, arch string) (cfg imageConfig, files map[string]member) {
	t.Helper()
	members := readImage(t)
	var index, platforms struct{ Manifests []blob }
	decode(t, members, "index.json", &index)
	decode(t, members, index.Manifests[0].Digest, &platforms)
	i := slices.IndexFunc(platforms.Manifests, func(b blob) bool { return b.Platform.OS == "linux" && b.Platform.Architecture == arch })
	if i < 0 || len(platforms.Manifests) != 2 {
		t.Fatalf("expected images for two platforms, found %+v", platforms)
	}
	var manifest struct {
		Config blob
		Layers []blob
	}
	decode(t, members, platforms.Manifests[i].Digest, &manifest)
	decode(t, members, manifest.Config.Digest, &cfg)
	files = map[string]member{}
	for _, layer := range manifest.Layers {
		data := members["blobs/sha256/"+strings.TrimPrefix(layer.Digest, "sha256:")]
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeDir {
				continue
			}
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name] = member{h.FileInfo().Mode(), b}
		}
	}
	return cfg, files
}

const inImage = "usr/bin/softrdma"

func TestImageContainsOnlyTheProgram(t *testing.T) {
	d := current(t)
	for _, arch := range []string{"amd64", "arm64"} {
		cfg, files := unpack(t, arch)
		if c := cfg.Config; cfg.Architecture != arch || c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/" + inImage}) ||
			c.Labels["org.opencontainers.image.version"] != d.version || c.Labels["org.opencontainers.image.revision"] != d.commit {
			t.Errorf("%s: unexpected configuration %+v", arch, cfg)
		}
		if _, udp := cfg.Config.ExposedPorts["4791/udp"]; !udp {
			t.Errorf("%s: the port of RoCE v2 is not exposed: %+v", arch, cfg)
		}
		want, err := os.ReadFile(d.program(system{"linux", arch}))
		if err != nil {
			t.Fatal(err)
		}
		if f := files[inImage]; len(files) != 2 || !bytes.Equal(f.data, want) || f.mode&0o111 != 0o111 || len(files["usr/share/doc/softrdma/LICENSE"].data) == 0 {
			t.Errorf("%s: expected the program and its licence, found %d files", arch, len(files))
		}
	}
}

// containerRoot creates a root file system from the image, with the directories that a
// container engine mounts.
func containerRoot(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		lacks(t, "root, which enters the image")
	}
	_, files := unpack(t, host.arch)
	root := openTemp(t)
	for name, f := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, f.data, f.mode.Perm()); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"proc", "run/softrdma"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(root, "run/softrdma"), 65532, 65532); err != nil {
		t.Fatal(err)
	}
	return root
}

// The command works without libc, shell, /proc, /tmp and users.
func TestImageRuns(t *testing.T) {
	root := containerRoot(t)
	for args, says := range map[string]string{
		"version":               "softrdma " + current(t).version,
		"demo --size 1M":        "In short:",
		"explain RNR_RETRY_EXC": "RNR",
	} {
		cmd := exec.Command("/"+inImage, strings.Fields(args)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), says) {
			t.Errorf("softrdma %s: %v\n%s", args, err, out)
		}
	}
}

// podScript runs the pod's programs like its containers: in one network namespace with an
// eth0, as one user, in one PID namespace, with a shared directory.
const podScript = `
ip link set lo up
ip link add eth0 type veth peer name eth1
ip addr add 10.99.0.1/24 dev eth0
ip link set eth0 up
ip link set eth1 up
mount -t proc proc "$ROOT/proc"
inside() { chroot --userspec=65532:65532 "$ROOT" /usr/bin/softrdma "$@"; }
inside %s & daemon=$!
for i in $(seq 300); do [ -S "$ROOT/run/softrdma/socket" ] && break; sleep 0.1; done
inside %s & program=$!
for i in $(seq 20); do
	inside perf write lat -n 20 10.99.0.1 && measured=yes && break
	sleep 0.5
done
[ -n "$measured" ] || exit 1
wait $program || exit 1
echo the program ended
`

func TestPodRuns(t *testing.T) {
	root := containerRoot(t)
	for _, need := range []string{"unshare", "ip", "chroot"} {
		if _, err := exec.LookPath(need); err != nil {
			lacks(t, need)
		}
	}
	p := examplePod(t)
	script := fmt.Sprintf(podScript, strings.Join(p.Spec.InitContainers[0].Args, " "), strings.Join(p.Spec.Containers[0].Args, " "))
	// The processes end with the first process of their PID namespace.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "ROOT="+root)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the program ended") || !strings.Contains(string(out), "rxe0 on 10.99.0.1 (eth0)") {
		t.Errorf("%v\n%s", err, out)
	}
}
