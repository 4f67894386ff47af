package cdi

import (
	"slices"
	"strings"
	"testing"
)

func TestEditsGiveNoRightsAndOneWritableFolderWhenAsked(t *testing.T) {
	for _, device := range Devices {
		e := Edits(device, "/store/files/1", "/store/shared/x")
		if len(e.DeviceNodes)+len(e.Hooks)+len(e.NetDevices)+len(e.AdditionalGIDs) > 0 || e.IntelRdt != nil {
			t.Errorf("%s: expected environment and mounts, found %+v", device, e)
		}
		var writable []string
		for _, m := range e.Mounts {
			if !slices.Contains(m.Options, "ro") {
				writable = append(writable, m.HostPath)
			}
			if !slices.Contains(m.Options, "nosuid") || !slices.Contains(m.Options, "nodev") {
				t.Errorf("%s: expected nosuid and nodev, found %v", m.HostPath, m.Options)
			}
		}
		expected := []string(nil)
		if device == Shared {
			expected = []string{"/store/shared/x"}
		}
		if !slices.Equal(writable, expected) {
			t.Errorf("%s: expected writable mounts %q, found %q", device, expected, writable)
		}
		for _, v := range e.Env {
			if name, value, _ := strings.Cut(v, "="); name != "LD_PRELOAD" && !strings.HasPrefix(name, "SOFTRDMA_") || !strings.HasPrefix(value, "/opt/softrdma") {
				t.Errorf("%s: unexpected variable %q", device, v)
			}
		}
	}
}
