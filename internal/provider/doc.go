// Package provider is the contract between the public packages and what stands
// behind them: a device for package verbs, a connection manager for package
// rdmacm. Package provider/local implements it with an adapter and a connection
// manager of this process.
//
// The package holds no protocol rules and checks nothing that a device or a
// manager checks.
package provider
