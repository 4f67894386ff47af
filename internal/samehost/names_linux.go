package samehost

import (
	"maps"
	"slices"
	"sync"
)

// published holds the hosts whose sockets are in a directory.
var published = struct {
	sync.Mutex
	hosts map[*Host]struct{}
	ended bool // RemoveNames was called
}{hosts: make(map[*Host]struct{})}

// publish records that the host's socket is in the directory, and reports whether it may stay.
func (h *Host) publish() bool {
	published.Lock()
	defer published.Unlock()
	if !published.ended {
		published.hosts[h] = struct{}{}
	}
	return !published.ended
}

// unpublish removes the host's name unless it is already removed.
func (h *Host) unpublish() {
	published.Lock()
	defer published.Unlock()
	if _, ok := published.hosts[h]; ok {
		delete(published.hosts, h)
		h.dir.remove(h.name.String())
	}
}

// RemoveNames removes the sockets of all devices of this process from their directories, and
// keeps the process from publishing others. A process calls it when it ends without having
// closed its devices.
func RemoveNames() {
	published.Lock()
	published.ended = true
	hosts := slices.Collect(maps.Keys(published.hosts))
	published.Unlock()
	for _, h := range hosts {
		h.unpublish()
	}
}
