package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/schema"
)

// TestContainerDevicesFollowTheirSpecification applies the schema and the rules of the library of container
// runtimes to what softrdma cdi generate writes, and adds each device to a container as they do.
func TestContainerDevicesFollowTheirSpecification(t *testing.T) {
	program := current(t).program(host)
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), program, "cdi", "generate", "--output", dir, "--store", filepath.Join(t.TempDir(), "store")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := schema.BuiltinSchema().ValidateFile(filepath.Join(dir, "softrdma-rdma.json")); err != nil {
		t.Error(err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if found := cache.ListDevices(); !slices.Equal(found, []string{"softrdma/rdma=auto", "softrdma/rdma=shared"}) {
		t.Fatalf("found the devices %q, and errors %v", found, cache.GetErrors())
	}
	// Runtimes add devices to a container whose image has variables and mounts of its own.
	container := oci.Spec{Process: &oci.Process{Env: []string{"LD_PRELOAD=/other.so", "PATH=/bin"}}}
	if missing, err := cache.InjectDevices(&container, "softrdma/rdma=auto", "softrdma/rdma=shared"); err != nil {
		t.Fatalf("%v, %q", err, missing)
	}
	if len(container.Mounts) != 2 || !slices.Contains(container.Process.Env, "LD_PRELOAD=/opt/softrdma/preload.so") {
		t.Errorf("expected two mounts and the preloaded library, found %+v", container)
	}
	if container.Hooks != nil || container.Linux != nil || container.Process.Capabilities != nil {
		t.Errorf("expected no rights, found %+v", container)
	}
}
