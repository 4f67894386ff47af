//go:build kubernetes

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// A node has what containers need for their devices.
type node struct {
	// install makes the files that containers mount, unless they are there, and returns their paths.
	install func() (paths []string, err error)
	iface   string        // must be up; "" if no interface matters
	again   time.Duration // after which install is tried again when it has failed

	found map[string]file
	next  time.Time // of install
}

// prepare makes the files, and notes them.
func (n *node) prepare() error {
	paths, err := n.install()
	if err != nil {
		return err
	}
	n.found = make(map[string]file, len(paths))
	for _, path := range paths {
		n.found[path] = identify(path)
	}
	return nil
}

// check returns an error if containers cannot use their devices.
func (n *node) check() error { return errors.Join(n.checkFiles(), n.checkInterface()) }

func (n *node) checkFiles() error {
	for path, was := range n.found {
		switch now := identify(path); {
		case now == file{}:
			return fmt.Errorf("%s is gone", path)
		case now != was:
			return fmt.Errorf("%s has changed", path)
		}
	}
	return nil
}

func (n *node) checkInterface() error {
	if n.iface == "" {
		return nil
	}
	switch i, err := net.InterfaceByName(n.iface); {
	case err != nil:
		return fmt.Errorf("interface %s is gone", n.iface)
	case i.Flags&net.FlagUp == 0:
		return fmt.Errorf("interface %s is down", n.iface)
	}
	return nil
}

// watch keeps the health of the devices, and restores files, until the context ends.
func (n *node) watch(ctx context.Context, look time.Duration, h *health, log func(format string, args ...any)) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		err := n.check()
		switch changed := h.set(err); {
		case changed && err != nil:
			log("unhealthy: %s", strings.ReplaceAll(err.Error(), "\n", ", "))
		case changed:
			log("healthy again")
		}
		if n.checkFiles() != nil && !time.Now().Before(n.next) {
			if err := n.prepare(); err != nil {
				n.next = time.Now().Add(n.again)
				log("restore the files of containers: %v", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
