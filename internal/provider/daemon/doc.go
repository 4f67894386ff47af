// Package daemon is the driver of devices that a daemon serves (softrdma daemon,
// package uverbs). It sends what package verbs asks of a device to the daemon as
// commands of ib_user_verbs.h, in messages on a Unix socket (package uapi), like
// programs that run with the preloaded library.
//
// It owns the connections to the daemon, the mappings of rings, which the daemon
// creates, and the pipes that signal events. The daemon accesses registered memory
// by this process's number, or in its own mapping if the memory is a memfd. Nothing
// here depends on the protocol of the device.
//
// The device ends with its daemon. The end of the pipe that stands for the device
// file signals it, and in the same way the daemon notices the end of this process.
package daemon
