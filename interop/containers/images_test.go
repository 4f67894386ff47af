//go:build interop && linux

package containers

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// releases are those of the images. Each holds nothing but Debian's packages.
var releases = []string{"bookworm", "trixie"}

// packages are installed in an image, beside the essential ones.
const packages = "ibverbs-utils,ibverbs-providers,perftest,rdmacm-utils,ucx-utils"

// firstWrite is how long it may take from the archive to the end of the first ib_write_bw.
const firstWrite = 30 * time.Second

// TestFirstWriteFromTheArchive counts commands and time from the command alone to the first ib_write_bw
// between two containers of a release.
func TestFirstWriteFromTheArchive(t *testing.T) {
	if !*enabled {
		t.Skip("make containers runs it: it makes images of 240 and 580 MB")
	}
	if !insideWith(t, releases...) {
		return
	}
	e := newEngine(t)
	for _, release := range releases {
		img := e.image(release)
		e.must(e.softrdma, "cdi", "remove", "--output", "/run/cdi", "--store", e.store)
		start := time.Now()
		e.must(e.softrdma, "cdi", "generate", "--output", "/run/cdi", "--store", e.store) // the first command, before those of the pair
		out, err := e.pair(img, auto, writeServer, writeClient)
		took := time.Since(start)
		if err != nil || !strings.Contains(out, written) || took > firstWrite {
			t.Errorf("%s: %v, %v, expected %q within %v, found:\n%s", release, took, err, written, firstWrite, out)
		}
		t.Logf("%s: %.1f s, 3 commands", release, took.Seconds())
	}
}

// insideWith is inside with the user lands of releases, which it makes where the network is.
func insideWith(t *testing.T, releases ...string) bool {
	t.Helper()
	if os.Getenv(insideVariable) == "" {
		err := lab.InstallImages(t.Context())
		for _, release := range releases {
			if err == nil {
				_, err = userLand(t.Context(), release)
			}
		}
		if errors.As(err, new(*lab.LackError)) {
			lacks(t, err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return inside(t)
}

// userLand returns the directory of a release.
func userLand(ctx context.Context, release string) (string, error) {
	return lab.UserLand(ctx, "image-"+release, release, packages)
}

// image returns the image of a release, which buildah makes of a user land.
func (e *engine) image(release string) image {
	e.t.Helper()
	root, err := userLand(e.t.Context(), release)
	if err != nil {
		e.t.Fatal(err)
	}
	buildah := concat([]string{"buildah"}, e.podman[1:7]) // the same store
	container := strings.TrimSpace(e.must(concat(buildah, []string{"from", "scratch"})...))
	if out, err := run(e.t, 5*time.Minute, concat(buildah, []string{"copy", "--quiet", container, root, "/"})...); err != nil {
		e.t.Fatalf("%v: %s", err, out)
	}
	if out, err := run(e.t, 5*time.Minute, concat(buildah, []string{"commit", "--quiet", "--rm", container, release})...); err != nil {
		e.t.Fatalf("%v: %s", err, out)
	}
	return image("localhost/" + release)
}
