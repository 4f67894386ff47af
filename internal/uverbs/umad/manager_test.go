//go:build linux

package umad

import (
	"errors"
	"maps"
	"slices"
	"syscall"
	"testing"

	"softrdma/internal/uverbs/client"
)

func TestPortHasOneSubnetManager(t *testing.T) {
	ib := &fakePort{smi: true}
	m := New(&client.Runtime{}, []Port{&fakePort{}, ib})
	kinds := m.Kinds()
	if names := slices.Sorted(maps.Keys(kinds)); !slices.Equal(names, []string{"issm1", "umad0", "umad1"}) {
		t.Fatalf("files %q", names)
	}
	files := make(map[string]string)
	m.AddSysfs(files)
	if files["sys/class/infiniband_mad/issm1/port"] != "2" || files["sys/class/infiniband_mad/issm1/dev"] != "231:65" {
		t.Errorf("files %q", files)
	}
	s, err := kinds["issm1"].Open(nil)
	if err != nil || !ib.sm {
		t.Fatalf("IsSM %t, %v", ib.sm, err)
	}
	if _, err := kinds["issm1"].Open(nil); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("opened twice: %v", err)
	}
	if s.End(); ib.sm {
		t.Error("IsSM after the end")
	}
	ib.broken = syscall.EIO
	for range 2 {
		if _, err := kinds["issm1"].Open(nil); !errors.Is(err, syscall.EIO) {
			t.Errorf("a port that fails: %v", err)
		}
	}
}
