//go:build interop && linux

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"
)

// sourceDir is the folder of this package. The guests see it under the same path.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

var lastPort atomic.Int32

// nextPort returns a TCP port that this run has not used: no test waits for another's connections to be forgotten.
func nextPort() int { return 20000 + int(lastPort.Add(1)) }

// BuildGo builds a main package of the module, given by its path from the module's root, into the run's folder.
func (l *Lab) BuildGo(ctx context.Context, pkg string) (string, error) {
	to := filepath.Join(l.dir, filepath.Base(pkg))
	return to, goBuild(ctx, "./"+pkg, to)
}

func goBuild(ctx context.Context, pkg, to string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, pkg)
	cmd.Dir = filepath.Dir(sourceDir())
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", pkg, err, out)
	}
	return nil
}
