//go:build linux

package uverbs

import (
	"fmt"
	"strings"

	"softrdma/internal/registry"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// hello answers a program that asks, before it opens a device or starts another
// program (daemon.Ask), whether it will be served.
func (s *Server) hello(p *client.Process, probe uint64, a *client.Answer) error {
	if err := p.CheckMemory(probe); err != nil {
		return err
	}
	lines := []string{s.Tree()}
	for _, d := range s.devices {
		end := ")"
		if registry.Of(d.Verbs).Slots == nil {
			end = uapi.NotShared
		}
		lines = append(lines, fmt.Sprintf("%s %v (%v%s", d.Name, d.Addr(), d.Verbs.Protocol(), end))
	}
	a.Text = []byte(strings.Join(lines, "\n"))
	return nil
}
