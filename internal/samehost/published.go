package samehost

import "net/netip"

// A Device is one that the directory lists. Its process may have been killed.
type Device struct {
	Kind  string // of frames, in lower case letters and digits: "rocev2"
	Local netip.AddrPort
	Same  bool // it is in this network namespace
}
