// Package client knows the programs that a server of device files has: their
// processes, as the system identifies them, and whether they are served.
//
// It owns what belongs to a program whatever it asks for: access to its memory,
// the account of its user, its open files, the descriptors that wake it, the memory
// that it shares with the server, and the names of refusals. What a call on a file
// does is its [Service]'s. It knows no command and no device.
package client
