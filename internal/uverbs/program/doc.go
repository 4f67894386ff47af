// Package program serves the program that it runs in: a C program whose preloaded library
// has opened the engine of softrdma in its process. Calls on a device file are function
// calls, and registered memory is the program's own.
//
// It owns the devices that the program has opened, each on a share of the address of a server's
// device (verbs.Open, "shared:"), and the files of them. The server, package uverbs, keeps the
// connection manager, the sysfs tree and netlink. What a command does is package commands'.
package program
