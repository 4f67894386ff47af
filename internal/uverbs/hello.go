//go:build linux

package uverbs

import (
	"fmt"
	"strings"

	"softrdma/internal/uverbs/client"
)

// hello tells who asks before it opens a device, or starts a program
// (daemon.Ask), that it will be served, or why not.
func (s *Server) hello(p *client.Process, probe uint64, a *client.Answer) error {
	if err := p.CheckMemory(probe); err != nil {
		return err
	}
	lines := []string{s.Tree()}
	for _, d := range s.devices {
		lines = append(lines, fmt.Sprintf("%s %v", d.Name, d.Addr()))
	}
	a.Text = []byte(strings.Join(lines, "\n"))
	return nil
}
