package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Tests of several packages run at the same time. Those that name the addresses of their devices name other ones
// than those of other packages. On 127.0.0.0/16 are the devices of simulated networks, where that does not matter.
func TestPackagesTestOnLoopbackAddressesOfTheirOwn(t *testing.T) {
	device := regexp.MustCompile(`"(?:[a-z0-9]+:)?(127\.[1-9]\d*\.\d+\.\d+)"`)
	first := map[string]string{}
	for _, path := range sourceFiles(t, "_test.go") {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if dir = filepath.ToSlash(dir); strings.HasPrefix(dir, "interop/") || strings.HasPrefix(dir, "bench") { // run alone
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range device.FindAllSubmatch(b, -1) {
			address := string(m[1])
			if other, ok := first[address]; ok && other != dir {
				t.Errorf("%s: %s is an address of the tests of %s, too", path, address, other)
			}
			first[address] = dir
		}
	}
	if len(first) < 100 {
		t.Errorf("found %d addresses", len(first))
	}
}
