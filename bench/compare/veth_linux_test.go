package compare

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// asRoot skips a test that needs to create namespaces unless it runs as root.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces: only root may make them")
	}
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("nsenter is not installed (Debian: apt install util-linux)")
	}
}

// interfacesOf returns the interfaces in an end's /sys.
func interfacesOf(t *testing.T, p *Path, end int) []string {
	t.Helper()
	out, err := p.command(t.Context(), end, "ls", "/sys/class/net").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// UCX finds only devices in /sys, and a network namespace alone does not change /sys.
func TestVethShowsEachEndItsInterfaces(t *testing.T) {
	asRoot(t)
	p, err := Veth(1500)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for end, name := range p.Device {
		if got := interfacesOf(t, p, end); !slices.Contains(got, name) || slices.Contains(got, p.Device[1-end]) {
			t.Errorf("end %d sees %v, expected %s", end, got, name)
		}
	}
}
