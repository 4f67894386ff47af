// Package bridge leads from the objects of package verbs to the adapter's
// behind them, for the packages of this module that stand beside verbs: what
// they need of a device is no part of the public interface. Package verbs sets
// the functions when it is initialised; devices pass as any, because this package stands below verbs.
//
// It owns nothing and keeps no state of its own.
package bridge

import (
	"crypto/tls"
	"net/netip"

	"softrdma/internal/adapter"
	"softrdma/internal/driver"
)

// Set by package verbs, never nil in a program that imports it.
var (
	// Device gives the adapter's device behind a *verbs.Device.
	Device func(dev any) *adapter.Device

	// Driver gives what stands behind a *verbs.Device of either kind.
	Driver func(dev any) driver.Device

	// Security gives the configuration of TLS that a *verbs.Device was opened with.
	Security func(dev any) *tls.Config

	// Opened gives the *verbs.Device that this process has open on a local
	// address and UDP port, nil for none.
	Opened func(local netip.AddrPort) any
)

// Set by package rdmacm, nil in a program that does not import it. Devices of
// rdmacm stay open for a moment after their last use.
var (
	// Vacate closes the device of rdmacm on a local address that nobody uses
	// any more, so that the program can open it.
	Vacate func(local netip.AddrPort)

	// Closing tells that a *verbs.Device is about to be closed.
	Closing func(dev any)
)
