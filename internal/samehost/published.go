package samehost

import "net/netip"

// A Device is an entry of the directory. Its process may have been killed.
type Device struct {
	Kind  string // frame format in lower case letters and digits: "rocev2"
	Local netip.AddrPort
	Same  bool // in this network namespace
}
