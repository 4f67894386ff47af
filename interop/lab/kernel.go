//go:build interop && linux

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Kernel is an unpacked Debian kernel package.
type Kernel struct {
	Version string // as uname -r tells it in the guest
	Root    string // the folder that holds boot/ and lib/modules/
}

// Image is the path of the bootable kernel.
func (k Kernel) Image() string { return filepath.Join(k.Root, "boot", "vmlinuz-"+k.Version) }

// Modules is the folder that is /lib/modules in a guest.
func (k Kernel) Modules() string { return filepath.Join(k.Root, "lib", "modules") }

const kernelMetapackage = "linux-image-amd64"

var kernelDependency = regexp.MustCompile(`(?m)^\s*Depends:\s*linux-image-(\d\S*)$`)

// cacheDir returns the folder in which the lab keeps kernels and runs.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "softrdma-lab")
	return dir, os.MkdirAll(dir, 0o755)
}

// fetchKernel returns the kernel that Debian's metapackage depends on today, from the cache when it is there.
func fetchKernel(ctx context.Context, cache string) (Kernel, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	version, err := kernelVersion(ctx)
	if err != nil {
		if k, ok := newestKernel(cache); ok {
			return k, nil
		}
		return Kernel{}, &LackError{"a kernel", err.Error()}
	}
	k := Kernel{Version: version, Root: filepath.Join(cache, "linux-"+version)}
	if _, err := os.Stat(k.Image()); err == nil {
		return k, nil
	}
	if err := unpackKernel(ctx, cache, k); err != nil {
		return Kernel{}, &LackError{"a kernel", err.Error()}
	}
	return k, nil
}

func kernelVersion(ctx context.Context) (string, error) {
	ask := func() (string, error) {
		out, err := RunCommand(ctx, "", "apt-cache", "depends", kernelMetapackage)
		if err != nil {
			return "", err
		}
		m := kernelDependency.FindStringSubmatch(out)
		if m == nil {
			return "", fmt.Errorf("apt-cache depends %s names no linux-image-VERSION, but says %q", kernelMetapackage, out)
		}
		return m[1], nil
	}
	version, err := ask()
	if err == nil {
		return version, nil
	}
	if _, err := RunCommand(ctx, "", "apt-get", "-q", "update"); err != nil {
		return "", err
	}
	return ask()
}

func newestKernel(cache string) (Kernel, bool) {
	var newest Kernel
	var when time.Time
	images, _ := filepath.Glob(filepath.Join(cache, "linux-*", "boot", "vmlinuz-*"))
	for _, image := range images {
		if st, err := os.Stat(image); err == nil && st.ModTime().After(when) {
			when = st.ModTime()
			newest = Kernel{
				Version: strings.TrimPrefix(filepath.Base(image), "vmlinuz-"),
				Root:    filepath.Dir(filepath.Dir(image)),
			}
		}
	}
	return newest, newest.Version != ""
}

// unpackKernel downloads and unpacks in another folder and renames it, so that an interrupted run leaves nothing
// incomplete.
func unpackKernel(ctx context.Context, cache string, k Kernel) error {
	scratch, err := os.MkdirTemp(cache, "unpack-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if _, err := RunCommand(ctx, scratch, "apt-get", "-q", "download", "linux-image-"+k.Version); err != nil {
		// The list of packages may name a version that the mirror no longer has.
		if _, err := RunCommand(ctx, scratch, "apt-get", "-q", "update"); err != nil {
			return err
		}
		if _, err := RunCommand(ctx, scratch, "apt-get", "-q", "download", "linux-image-"+k.Version); err != nil {
			return err
		}
	}
	debs, _ := filepath.Glob(filepath.Join(scratch, "*.deb"))
	if len(debs) != 1 {
		return fmt.Errorf("apt-get download linux-image-%s left %d .deb files, want 1", k.Version, len(debs))
	}
	root := filepath.Join(scratch, "root")
	if _, err := RunCommand(ctx, scratch, "dpkg", "-x", debs[0], root); err != nil {
		return err
	}
	if _, err := RunCommand(ctx, scratch, "depmod", "-b", root, k.Version); err != nil {
		return err
	}
	if err := os.Rename(root, k.Root); err != nil {
		if _, statErr := os.Stat(k.Image()); statErr == nil {
			return nil // another run was faster
		}
		return err
	}
	return nil
}
