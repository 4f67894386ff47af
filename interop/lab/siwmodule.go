//go:build interop && linux

package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Linux's soft iWARP is not in Debian's kernel package. It is built from Debian's source of the same kernel, once for a
// kernel in the cache.

// siwEdits turns constants of siw into parameters that tests can set: whether it asks for CRCs and for peer-to-peer
// connections, and the revision of its MPA requests. Nothing else of siw is changed.
var siwEdits = []struct{ file, from, to string }{
	{"siw_main.c", "const bool mpa_crc_required;", "bool mpa_crc_required;\nmodule_param(mpa_crc_required, bool, 0644);"},
	{"siw_main.c", "const bool peer_to_peer;", "bool peer_to_peer;\nmodule_param(peer_to_peer, bool, 0644);"},
	{"siw_main.c", "u_char mpa_version = MPA_REVISION_2;", "u_char mpa_version = MPA_REVISION_2;\nmodule_param(mpa_version, byte, 0644);"},
	{"siw.h", "extern const bool mpa_crc_required;", "extern bool mpa_crc_required;"},
	{"siw.h", "extern const bool peer_to_peer;", "extern bool peer_to_peer;"},
}

// siwRecipe identifies the edits with which a module in the cache was built.
func siwRecipe() []byte { return fmt.Appendf(nil, "%q\n", siwEdits) }

// provideSiw adds siw.ko to the kernel's modules if it is missing.
func provideSiw(ctx context.Context, cache string, k Kernel) error {
	dir := filepath.Join(k.Modules(), k.Version, "extra")
	stamp := filepath.Join(dir, "siw.recipe")
	if recipe, err := os.ReadFile(stamp); err == nil && bytes.Equal(recipe, siwRecipe()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	scratch, err := os.MkdirTemp(cache, "siw-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	module, err := buildSiw(ctx, k, scratch)
	if err != nil {
		return &LackError{"siw", err.Error()}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(module, filepath.Join(dir, "siw.ko")); err != nil {
		return err
	}
	if _, err := RunCommand(ctx, "", "depmod", "-b", k.Root, k.Version); err != nil {
		return err
	}
	return os.WriteFile(stamp, siwRecipe(), 0o644)
}

// buildSiw builds the module in an empty folder and returns its path.
func buildSiw(ctx context.Context, k Kernel, scratch string) (string, error) {
	release := strings.SplitN(k.Version, ".", 3)
	if len(release) < 3 {
		return "", fmt.Errorf("kernel version %q is not like 6.1.0-1-amd64", k.Version)
	}
	source := "linux-source-" + release[0] + "." + release[1]
	tarball, headers := "/usr/src/"+source+".tar.xz", "/usr/src/linux-headers-"+k.Version
	err := install(ctx, []debianPackage{
		{source, tarball}, {"linux-headers-" + k.Version, filepath.Join(headers, "Module.symvers")}, {"make", "/usr/bin/make"}, {"xz-utils", "/usr/bin/xz"},
	})
	if err != nil {
		return "", err
	}
	const folder = "drivers/infiniband/sw/siw"
	if _, err := RunCommand(ctx, scratch, "tar", "-xJf", tarball, "--strip-components=1", source+"/"+folder); err != nil {
		return "", err
	}
	dir := filepath.Join(scratch, folder)
	for _, e := range siwEdits {
		if err := edit(filepath.Join(dir, e.file), e.from, e.to); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "make", "-C", headers, "M="+dir, "CONFIG_RDMA_SIW=m", "modules")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, Tail(string(out), 2000))
	}
	return filepath.Join(dir, "siw.ko"), nil
}

// edit replaces a line that a file has exactly once.
func edit(path, from, to string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(content), from+"\n"); n != 1 {
		return fmt.Errorf("%s has %q %d times, expected once", filepath.Base(path), from, n)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(content), from, to, 1)), 0o644)
}
