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

// nothingLeft compares the files before and after.
const nothingLeft = `(cd /; ` + listed + `) > /tmp/after; (cd /; diff /tmp/before /tmp/after) && echo nothing is left`

func TestDebianPackageInstallsAndLeavesNothing(t *testing.T) {
	name := needed(t, "../../bin/dist/softrdma_*_"+runtime.GOARCH+".deb", "run make dist")
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			line := "(cd /; " + listed + ") > /tmp/before; set -e; dpkg -i /mnt/" + filepath.Base(name) + "; dpkg --verify softrdma; " + used + "dpkg -P softrdma; " + nothingLeft
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
	line := used + "touch /tmp/used"
	files := strings.ReplaceAll(listed, "-xdev", "-xdev ! -type d")
	before := files + ` > tmp/before; rpm --root "$PWD" --initdb; rpm --root "$PWD" -i "$FILES/` + filepath.Base(name) + `"; rpm --root "$PWD" -V softrdma
(chroot . sh -c 'cd /tmp; ` + strings.ReplaceAll(line, "'", `'\''`) + `'); rpm --root "$PWD" -e softrdma`
	out, err := in(t, root, filepath.Dir(name), before, "test -e /tmp/used; "+strings.ReplaceAll(nothingLeft, listed, files), programs[3].script)
	if err != nil || !strings.Contains(out, programs[3].prints) || !strings.HasSuffix(out, "nothing is left\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
