package samehost

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"softrdma/internal/reason"
)

// Published returns the path of the directory that Config.Dir stands for, and the devices
// that it lists. It makes nothing and connects to nobody.
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
		if n, ok := parseName(e.Name()); ok && n.slot == (slot{}) { // of programs on one address, one stands for all
			list = append(list, Device{n.kind, n.local, n.space == in})
		}
	}
	slices.SortFunc(list, func(a, b Device) int { return cmp.Or(a.Local.Compare(b.Local), cmp.Compare(a.Kind, b.Kind)) })
	return dir, list, nil
}
