//go:build interop && linux

package userlands

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"softrdma/internal/testenv"
)

// listed are the files of a user land, except for those in which package managers keep what they did.
const listed = `find . -xdev ! -path './var/lib/dpkg*' ! -path './var/lib/rpm*' ! -path './var/log/*' ! -path './var/cache/*' ! -path './tmp/*' ! -path './run/*' ! -path './root/.rpmdb*' | sort`

// used shows that an installed package works.
const used = `set -e; softrdma version; test -s /usr/lib/systemd/system/softrdma.service; zcat /usr/share/man/man1/softrdma-exec.1.gz | head -1
softrdma exec -- sh -c "$SCRIPT"; `

// specified says whether containers get devices, after a step.
const specified = `specified() { test -s /etc/cdi/softrdma-rdma.json || { echo "no specification after $1"; exit 1; }; }
unspecified() { ! test -e /etc/cdi/softrdma-rdma.json || { echo "a specification after $1"; exit 1; }; }; `

// nothingLeft compares the files before and after.
const nothingLeft = `(cd /; ` + listed + `) > /tmp/after; (cd /; diff /tmp/before /tmp/after) && echo nothing is left`

func TestDebianPackageInstallsAndLeavesNothing(t *testing.T) {
	name := needed(t, "../../bin/dist/softrdma_*_"+runtime.GOARCH+".deb", "run make dist")
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			install := "dpkg -i /mnt/" + filepath.Base(name) + "; "
			line := "(cd /; " + listed + ") > /tmp/before; set -e; " + specified +
				install + "dpkg --verify softrdma; specified installation; " + used +
				install + "specified upgrade; softrdma cdi remove; " + install + "unspecified \"cdi remove and upgrade\"; dpkg -r softrdma; " +
				// Without /proc, as an image's build may be.
				"umount /proc; " + install + "mount -t proc none /proc; softrdma cdi generate; specified generate; " +
				"dpkg -P softrdma; " + nothingLeft
			out, err := in(t, userLand(t, r.name), filepath.Dir(name), "", line, programs[3].script)
			if err != nil || !strings.Contains(out, programs[3].prints) || !strings.HasSuffix(out, "nothing is left\n") {
				t.Errorf("%s (%s): %v\n%s", r.name, r.why, err, out)
			}
		})
	}
}

// Debian's rpm installs the package into a user land of Debian, which has no rpm itself, nor all of the folders of
// Fedora's package "filesystem".
func TestFedoraPackageInstallsAndLeavesNothing(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	name := needed(t, "../../bin/dist/softrdma-*-1."+arch+".rpm", "run make dist")
	if _, err := exec.LookPath("rpm"); err != nil {
		testenv.Lacks(t, "rpm")
	}
	root := userLand(t, "trixie")
	line := specified + used + "specified installation; touch /tmp/used"
	files := strings.ReplaceAll(listed, "-xdev", "-xdev ! -type d")
	before := files + ` > tmp/before; rpm --root "$PWD" --initdb; rpm --root "$PWD" -i "$FILES/` + filepath.Base(name) + `"; rpm --root "$PWD" -V softrdma
(chroot . sh -c 'cd /tmp; ` + strings.ReplaceAll(line, "'", `'\''`) + `')
upgrade() { rpm --root "$PWD" -U --force "$FILES/` + filepath.Base(name) + `"; }
upgrade; test -s etc/cdi/softrdma-rdma.json; chroot . softrdma cdi remove; upgrade; test ! -e etc/cdi/softrdma-rdma.json
rpm --root "$PWD" -e softrdma`
	out, err := in(t, root, filepath.Dir(name), before, "test -e /tmp/used; "+strings.ReplaceAll(nothingLeft, listed, files), programs[3].script)
	if err != nil || !strings.Contains(out, programs[3].prints) || !strings.HasSuffix(out, "nothing is left\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
