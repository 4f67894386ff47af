//go:build !linux

package fabric

import (
	"net/netip"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A Link carries the packets of one port. It exists only on Linux.
type Link struct{}

var errSystem = reason.NotSupported("programs attach to a fabric on Linux only")

// New fails.
func New(func(reason.Detail)) (*Link, error) { return nil, errSystem }

// SetLID does nothing.
func (l *Link) SetLID(ib.LID, uint8) {}

// LID returns 0.
func (l *Link) LID() (first ib.LID, lmc uint8) { return 0, 0 }

// Capabilities implements link.Packets.
func (l *Link) Capabilities() link.Capabilities { return capabilities }

// Send fails.
func (l *Link) Send(*link.Tx) error { return errSystem }

// Receive fails.
func (l *Link) Receive(*link.Rx) (bool, error) { return false, errSystem }

// Wait fails.
func (l *Link) Wait(time.Duration) error { return errSystem }

// Wake does nothing.
func (l *Link) Wake() {}

// Close does nothing.
func (l *Link) Close() error { return nil }

// Datagrams is a Link to a port of an Ethernet fabric. It exists only on Linux.
type Datagrams struct{ link.Datagrams }

// Frames is a Link to a port of an Ethernet fabric that carries whole frames. It exists only on Linux.
type Frames struct{ *Link }

// NewFrames returns nothing.
func NewFrames(*Link) *Frames { return nil }

// RoCEv1 is a Link to a port of an Ethernet fabric that carries frames of RoCE v1. It exists only on Linux.
type RoCEv1 struct{ link.Frames }

// NewRoCEv1 returns nothing.
func NewRoCEv1(*Link, [6]byte, string) *RoCEv1 { return nil }

// NewDatagrams returns nothing.
func NewDatagrams(*Link, netip.AddrPort) *Datagrams { return nil }
