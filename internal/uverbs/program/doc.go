// Package program serves the program that it runs in: a C program whose preloaded library
// has opened the engine of softrdma in its process. Calls on a device file are function
// calls, and registered memory is the program's own.
//
// It owns one device, opened on a share of a server's address (verbs.Open, "shared:"), and
// the files that the program has opened of it. The server, package uverbs, keeps the
// connection manager, the sysfs tree and netlink. What a command does is package commands'.
package program
