//go:build linux

package uverbs

import (
	"fmt"
	"strings"
)

// hello tells who asks before it opens a device, or starts a program
// (daemon.Ask), that it will be served, or why not.
func (s *Server) hello(p *process, probe uint64, a *answer) error {
	if err := p.reach(probe); err != nil {
		return err
	}
	lines := []string{s.Tree()}
	for _, d := range s.devices {
		lines = append(lines, fmt.Sprintf("%s %v", d.name, d.addr()))
	}
	a.data = []byte(strings.Join(lines, "\n"))
	return nil
}
