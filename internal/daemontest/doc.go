// Package daemontest gives tests a daemon in another process: the test's own program,
// run once more. A package that uses it has a test that does nothing but
//
//	func TestDaemonProcess(t *testing.T) { daemontest.Serve(t) }
package daemontest
