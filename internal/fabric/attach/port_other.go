//go:build !linux

package attach

import (
	"context"
	"net/netip"

	"softrdma/internal/fabric/hostport"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
)

// A Port is a port of a fabric to which this program is attached. This system has none.
type Port struct{}

var errSystem = reason.NotSupported("programs attach to a fabric on Linux only")

// Open fails.
func Open(context.Context, string) (*Port, error) { return nil, errSystem }

// OpenShare fails.
func OpenShare(context.Context, string, *Share) (*Port, error) { return nil, errSystem }

// OpenService fails.
func OpenService(context.Context, string, hostport.Service, *Share) (*Port, error) {
	return nil, errSystem
}

// Do fails.
func Do(context.Context, string, []byte) ([]byte, error) { return nil, errSystem }

// Down fails.
func Down(context.Context, string) error { return errSystem }

// Info returns nothing.
func (p *Port) Info() *Info { return &Info{} }

// Place returns nothing.
func (p *Port) Place() *Place { return nil }

// FindGID fails.
func (p *Port) FindGID(context.Context, netip.Addr) (netip.Addr, error) {
	return netip.Addr{}, errSystem
}

// reaches reports false.
func (p *Port) reaches(netip.Addr) bool { return false }

// Link returns nothing.
func (p *Port) Link() *fabric.Link { return nil }

// Watch does nothing.
func (p *Port) Watch(func(old, now *Info, e Event)) (stop func()) { return func() {} }

// HandleMAD does nothing.
func (p *Port) HandleMAD(func(*Arrival) bool) {}

// HandleStackEnded does nothing.
func (p *Port) HandleStackEnded(func(netip.Addr)) {}

// SendMAD fails.
func (p *Port) SendMAD(*Departure) error { return errSystem }

// SetMember does nothing.
func (p *Port) SetMember(Membership, bool) {}

// Violated does nothing.
func (p *Port) Violated(*Violation) {}

// SetSM fails.
func (p *Port) SetSM(bool) error { return errSystem }

// Leave does nothing.
func (p *Port) Leave() {}

// Close does nothing.
func (p *Port) Close() error { return nil }
