//go:build interop && linux

package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// UserLand returns the directory of a release of Debian with some packages beside the essential ones, given with commas.
// It makes the directory once, by debootstrap, and keeps it in the user's cache under a name.
func UserLand(ctx context.Context, name, release, packages string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(base, "softrdma-lab", name)
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		return "", &LackError{"debootstrap", err.Error()}
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(root), name+"-")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	_, err = RunCommand(ctx, "", "debootstrap", "--variant=minbase", "--include="+packages, release, unfinished)
	if err == nil {
		err = errors.Join(os.Chmod(unfinished, 0o755), os.Rename(unfinished, root))
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(unfinished))
	}
	return root, nil
}
