//go:build interop && linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A debianPackage is a package, with a file by which the lab knows that it is installed.
type debianPackage struct{ name, file string }

// packages are the Debian packages that the lab needs for any kernel. siwmodule.go has those for a certain kernel.
var packages = []debianPackage{
	{"qemu-system-x86", "/usr/bin/qemu-system-x86_64"},
	{"busybox-static", "/usr/bin/busybox"},
	{"cpio", "/usr/bin/cpio"},
	{"kmod", "/usr/sbin/modprobe"},
	{"iproute2", "/usr/bin/rdma"},
	{"tcpdump", "/usr/bin/tcpdump"},
	{"tshark", "/usr/bin/tshark"},
	{"rdma-core", "/usr/share/doc/rdma-core/tests/run_tests.py"},
	{"ibverbs-providers", "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"},
	{"ibverbs-utils", "/usr/bin/ibv_rc_pingpong"},
	{"rdmacm-utils", "/usr/bin/rping"},
	{"librdmacm1", "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"},
	{"iperf3", "/usr/bin/iperf3"},
	{"perftest", "/usr/bin/ib_write_bw"},
	{"infiniband-diags", "/usr/sbin/ibstat"},
	{"opensm", "/usr/sbin/opensm"},
	{"ibutils", "/usr/bin/ibdiagnet"},
	{"ibacm", "/usr/sbin/ibacm"},
	{"nvme-cli", "/usr/sbin/nvme"},
	{"fio", "/usr/bin/fio"},
	{"gawk", "/usr/bin/gawk"},
	{"xfsprogs", "/usr/sbin/mkfs.xfs"},
	{"python3-pyverbs", "/usr/lib/python3/dist-packages/pyverbs/__init__.py"},
}

// programs are packages of programs that run under softrdma exec alone, or show what it prints.
var programs = []debianPackage{
	{"ucx-utils", "/usr/bin/ucx_perftest"},
	{"openmpi-bin", "/usr/bin/mpirun.openmpi"},
	{"libopenmpi-dev", "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h"},
}

// iser are packages of SCSI over iSER: a target and initiators of user space, and what drives Linux's initiator.
var iser = []debianPackage{
	{"tgt", "/usr/sbin/tgtd"},
	{"libiscsi-bin", "/usr/bin/iscsi-perf"},
	{"open-iscsi", "/usr/sbin/iscsiadm"},
}

// containers are packages that run containers.
var containers = []debianPackage{
	{"podman", "/usr/bin/podman"},
	{"runc", "/usr/sbin/runc"},
	{"containernetworking-plugins", "/usr/lib/cni/bridge"},
	{"iproute2", "/usr/sbin/ip"},
	{"perftest", "/usr/bin/ib_write_bw"},
	{"ibverbs-providers", "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"},
}

// images are packages that make images of containers and run them in other ways.
var images = []debianPackage{
	{"debootstrap", "/usr/sbin/debootstrap"},
	{"buildah", "/usr/bin/buildah"},
	{"uidmap", "/usr/bin/newuidmap"},
	{"slirp4netns", "/usr/bin/slirp4netns"},
	{"fuse-overlayfs", "/usr/bin/fuse-overlayfs"},
	{"musl-tools", "/usr/bin/musl-gcc"},
}

// InstallContainers installs podman and programs for containers of this machine's user land, if they are missing.
// It needs root.
func InstallContainers(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return &LackError{"root", "it makes network namespaces, and overlays of this machine's root file system"}
	}
	return install(ctx, containers)
}

// InstallImages installs what makes images, if it is missing. It needs root.
func InstallImages(ctx context.Context) error { return install(ctx, images) }

// InstallPrograms installs UCX's and Open MPI's programs if they are missing. It needs root.
func InstallPrograms(ctx context.Context) error { return install(ctx, programs) }

// InstallISER installs programs of SCSI over iSER if they are missing. It needs root.
func InstallISER(ctx context.Context) error { return install(ctx, iser) }

// LackError says what the lab needs and cannot get.
type LackError struct{ What, Why string }

func (e *LackError) Error() string {
	return fmt.Sprintf("the interop lab lacks %s: %s", e.What, e.Why)
}

func missingPackages(wanted []debianPackage) []string {
	var names []string
	for _, p := range wanted {
		if _, err := os.Stat(p.file); err != nil {
			names = append(names, p.name)
		}
	}
	return names
}

// InstallPackages installs missing packages. It needs root, as all of the lab does.
func InstallPackages(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return &LackError{"root", "it makes network namespaces and tap devices"}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return &LackError{"/dev/net/tun", err.Error()}
	}
	return install(ctx, packages)
}

// install installs the missing ones of some packages.
func install(ctx context.Context, wanted []debianPackage) error {
	missing := missingPackages(wanted)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return &LackError{strings.Join(missing, ", "), "these are Debian packages, and there is no apt-get here"}
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	command := append([]string{"apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=240",
		"install", "--no-install-recommends"}, missing...)
	if _, err := RunCommand(ctx, "", command...); err != nil {
		// The list of packages may be missing or old.
		if _, err := RunCommand(ctx, "", "apt-get", "-q", "update"); err != nil {
			return &LackError{strings.Join(missing, ", "), err.Error()}
		}
		if _, err := RunCommand(ctx, "", command...); err != nil {
			return &LackError{strings.Join(missing, ", "), err.Error()}
		}
	}
	if missing = missingPackages(wanted); len(missing) > 0 {
		return &LackError{strings.Join(missing, ", "), "apt-get install succeeded, but their files are not where packages.go looks"}
	}
	return nil
}

// RunCommand runs a program on the host and returns its standard output; its error quotes the program's last words.
func RunCommand(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		said := ""
		if ee := (*exec.ExitError)(nil); errors.As(err, &ee) {
			said = ": " + Tail(string(ee.Stderr), 2000)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return string(out), fmt.Errorf("%s: %w%s", strings.Join(argv, " "), err, said)
	}
	return string(out), nil
}

// Tail returns the last n bytes of s, trimmed.
func Tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		s = "…" + s[len(s)-n:]
	}
	return s
}
