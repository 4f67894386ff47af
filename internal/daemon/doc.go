// Package daemon finds daemons (softrdma daemon, package uverbs), asks them what they serve, and
// takes shares of their devices' addresses for devices of this process.
package daemon
