//go:build interop && linux

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"
)

// ModuleRoot returns the root of the module's source tree. The working directory has to be in it, as it is in tests
// and under go run.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		content, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && bytes.HasPrefix(content, []byte("module softrdma\n")) {
			return at, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		if at == filepath.Dir(at) {
			return "", &LackError{"softrdma's source tree", dir + " is not in it, and the lab builds programs from it"}
		}
	}
}

var lastPort atomic.Int32

// NextPort returns a TCP port that this process has not used yet, so that no test waits until an earlier one's
// connections are forgotten.
func NextPort() int { return 20000 + int(lastPort.Add(1)) }

// BuildGo builds a main package of the module, given by its path from the module's root, into the run's folder.
func (l *Lab) BuildGo(ctx context.Context, pkg string) (string, error) {
	to := filepath.Join(l.dir, filepath.Base(pkg))
	return to, goBuild(ctx, "./"+pkg, to)
}

func goBuild(ctx context.Context, pkg, to string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", pkg, err, out)
	}
	return nil
}
