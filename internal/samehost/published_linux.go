package samehost

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"softrdma/internal/reason"
)

// Published returns the path of the directory that Config.Dir stands for, and the devices
// listed in it. It creates nothing and connects to no device.
func Published(dir string) (path string, list []Device, err error) {
	if dir == "" {
		dir = defaultDirectory()
	}
	in, err := ownSpace()
	if err != nil {
		return dir, nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return dir, nil, fmt.Errorf("%w: %w", failure(reason.HostDirectory, len(dir), err), err)
	}
	for _, e := range entries {
		if n, ok := parseName(e.Name()); ok && n.slot == (slot{}) { // list a shared address once
			list = append(list, Device{n.kind, n.local, n.space == in})
		}
	}
	slices.SortFunc(list, func(a, b Device) int { return cmp.Or(a.Local.Compare(b.Local), cmp.Compare(a.Kind, b.Kind)) })
	return dir, list, nil
}
