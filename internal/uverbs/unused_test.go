//go:build linux

package uverbs

import (
	"slices"
	"testing"

	"softrdma/internal/control"
)

// The device of a server behind one program is unused until the program opens it there. That of a daemon is
// shown anyway.
func TestDeviceBehindAProgramIsUnusedUntilItIsOpened(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	unused := func(s *Server) bool {
		t.Helper()
		all, err := control.Processes(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		at := s.devices[0].Verbs.Query().NodeGUID.String()
		i := slices.IndexFunc(all[0].Devices, func(d control.Info) bool { return d.GUID == at })
		if i < 0 {
			t.Fatalf("no device %s in %+v", at, all[0].Devices)
		}
		return all[0].Devices[i].Unused
	}
	if unused(newServer(t, "127.14.4.63")) {
		t.Error("the device of a daemon is unused")
	}
	for _, file := range []string{"uverbs0", "rdma_cm"} {
		s := newServerOf(t, "127.14.4.64", Config{Behind: true})
		if !unused(s) {
			t.Error("the device is used before it is opened")
		}
		newTestClient(t, s).open(file)
		if unused(s) {
			t.Errorf("the device is unused with %s open", file)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.devices[0].Verbs.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
