// Package provider is the contract between the public packages and what stands
// behind them: a device for package verbs, a connection manager for package
// rdmacm. Package provider/local implements it with an adapter and a connection
// manager of this process, and package provider/daemon with those of a daemon.
//
// Both kinds of device use the same rings (package queue). Everything else is a
// function call on a local device and a message to a daemon.
//
// The package holds no protocol rules and checks nothing that a device or a
// manager checks.
package provider
