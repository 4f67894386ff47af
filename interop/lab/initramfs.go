//go:build interop && linux

package lab

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed scripts/init.sh
var initScript []byte

// modules are loaded in this order, each after its dependencies. modprobe does not know that rdma_rxe needs
// crc32_generic. The modules of a processor come after it.
var modules = []string{
	"virtio_pci", "virtio_console", "virtio_net", "9p", "9pnet_virtio", "overlay", "configfs",
	"crc32_generic", "ib_uverbs", "rdma_ucm", "rdma_rxe", "siw",
}

// modulesOf returns the modules of guests with a processor. Without crc32-pclmul rdma_rxe uses crc32_generic.
func modulesOf(p Processor) []string {
	i := slices.Index(modules, "crc32_generic") + 1
	return slices.Insert(slices.Clone(modules), i, p.modules...)
}

// buildInitramfs writes the guest's first root file system into dir and returns its path.
func buildInitramfs(ctx context.Context, k Kernel, p Processor, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	root := filepath.Join(dir, "initramfs")
	for _, sub := range []string{"bin", "modules"} {
		if err := os.MkdirAll(filepath.Join(root, sub), 0o755); err != nil {
			return "", err
		}
	}
	if err := CopyFile("/usr/bin/busybox", filepath.Join(root, "bin", "busybox"), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(root, "init"), initScript, 0o755); err != nil {
		return "", err
	}
	if err := copyModules(ctx, k, modulesOf(p), filepath.Join(root, "modules")); err != nil {
		return "", err
	}
	if err := goBuild(ctx, "./interop/lab/agent", filepath.Join(root, "agent")); err != nil {
		return "", err
	}
	return packInitramfs(ctx, root, filepath.Join(dir, "initramfs.cpio"))
}

// copyModules copies the modules into one folder and writes the order in which they are loaded.
func copyModules(ctx context.Context, k Kernel, names []string, to string) error {
	var order []string
	seen := map[string]bool{}
	for _, name := range names {
		out, err := RunCommand(ctx, "", "modprobe", "-d", k.Root, "-S", k.Version, "--show-depends", name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			verb, path, _ := strings.Cut(strings.TrimSpace(line), " ")
			if verb != "insmod" || seen[path] { // "builtin NAME" needs nothing
				continue
			}
			seen[path] = true
			base := filepath.Base(path)
			order = append(order, base)
			if err := CopyFile(path, filepath.Join(to, base), 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(to, "order"), []byte(strings.Join(order, "\n")+"\n"), 0o644)
}

func packInitramfs(ctx context.Context, root, to string) (string, error) {
	var names []string
	err := filepath.Walk(root, func(path string, _ os.FileInfo, err error) error {
		if rel, _ := filepath.Rel(root, path); err == nil && rel != "." {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	archive, err := os.Create(to)
	if err != nil {
		return "", err
	}
	defer archive.Close()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "cpio", "--quiet", "-o", "-H", "newc")
	cmd.Dir = root
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n"))
	cmd.Stdout, cmd.Stderr = archive, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cpio: %w: %s", err, said.String())
	}
	return to, os.RemoveAll(root)
}

func CopyFile(from, to string, mode os.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, mode)
}
