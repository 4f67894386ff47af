package rdmanet

import (
	"testing"

	"softrdma/internal/daemontest"
)

// TestDaemonProcess runs the daemon of these tests.
func TestDaemonProcess(t *testing.T) { daemontest.Serve(t) }

// TestDaemonsDevicesAreTheSame repeats the tests over the connection manager on
// devices of a daemon.
func TestDaemonsDevicesAreTheSame(t *testing.T) { sameTestsOnDaemon(t, "") }

// TestDaemonsIWARPDevicesAreTheSame repeats them on iWARP devices of a daemon.
func TestDaemonsIWARPDevicesAreTheSame(t *testing.T) { sameTestsOnDaemon(t, "iwarp:") }

func sameTestsOnDaemon(t *testing.T, prefix string) {
	devices := []string{prefix + address(), prefix + address(), prefix + address()}
	d := daemontest.Start(t, devices...)
	next := 0
	testDaemon = func() string {
		next++
		return d.Name(devices[next%len(devices)])
	}
	defer func() { testDaemon = nil }()
	sameTests(t)
	if !t.Failed() { // a failed test may leave objects
		d.End(t)
	}
}
