package simnet

import "softrdma/internal/link"

// Fragment implements link.Fragmenter.
func (l *Link) Fragment(p *link.Flow, m link.Fragmentation) {
	if f := l.open(p); f != nil {
		f.mode = m
	}
}
