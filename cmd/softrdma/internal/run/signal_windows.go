package run

import "os"

// notify returns no signals: Windows has none to send.
func notify() (<-chan os.Signal, func()) {
	c := make(chan os.Signal)
	return c, func() { close(c) }
}

// terminate ends a rank.
func terminate(p *os.Process) error { return p.Kill() }
