// Cmpeer implements the example programs of librdmacm over softrdma, with the same options, so that
// either end of each may run on Linux:
//
//	cmpeer ucmatose -b 10.77.0.1 -c 3
//	cmpeer ucmatose -s 10.77.0.2 -c 3
//
// With -iwarp before the program's name the devices use iWARP.
//
// It does what the programs do and checks more: every completion must have succeeded, every byte
// must be the one that was sent, and every object must be released at the end. A server prints
// "listening" when it is ready and exits after serving the number of clients it was told to. On an
// error cmpeer prints it to standard error and exits with 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// programs maps each program's name to its implementation.
var programs = map[string]func(context.Context, *flag.FlagSet, []string) error{
	"ucmatose": ucmatose, "udaddy": udaddy, "mckey": mckey, "cmtime": cmtime, "rdma_server": rdmaServer, "rdma_client": rdmaClient,
	"rstream": rstream, "riostream": riostream, "iperf3": iperf3Peer,
}

// protocol is the protocol of the devices.
var protocol = verbs.RoCE

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "-iwarp" {
		protocol, args = verbs.IWARP, args[1:]
	}
	if len(args) < 1 || programs[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cmpeer [-iwarp]", strings.Join(slices.Sorted(maps.Keys(programs)), "|"), "[options]")
		os.Exit(2)
	}
	name := args[0]
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	// The timeout ends the run even if the peer never answers.
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("a minute is over"))
	defer cancel()
	if err := programs[name](ctx, flags, args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "cmpeer %s: %v\n", name, err)
		os.Exit(1)
	}
}

// listening reports that a peer can connect.
func listening() { fmt.Println("listening") }

// address parses an IP address and a port. An empty host is the unspecified address.
func address(host, port string) (netip.AddrPort, error) {
	if host == "" {
		host = "0.0.0.0"
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(a, uint16(n)), nil
}

func join(host, port string) string { return net.JoinHostPort(host, port) }

// newID makes an id for the selected protocol.
func newID(ch *rdmacm.EventChannel, ps rdmacm.PortSpace) (*rdmacm.ID, error) {
	id, err := ch.NewID(ps)
	if err != nil {
		return nil, err
	}
	return id, id.SetOption(rdmacm.OptionProtocol, int(protocol))
}
