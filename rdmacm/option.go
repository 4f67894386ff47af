package rdmacm

import (
	"fmt"
	"math"

	"softrdma/internal/cmid"
	"softrdma/internal/provider"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// An Option is an option of an id (rdma_set_option).
type Option int

// The options.
const (
	OptionTOS             Option = iota // type of service of the packets, 0 to 255 (RDMA_OPTION_ID_TOS)
	OptionReuseAddr                     // 1: share the port with others that set it (RDMA_OPTION_ID_REUSEADDR)
	OptionAfOnly                        // 1: a listener on [::] accepts only IPv6 (RDMA_OPTION_ID_AFONLY)
	OptionAckTimeout                    // the queue pair's timeout, 0 to 31: 4.096 µs × 2^n (RDMA_OPTION_ID_ACK_TIMEOUT)
	OptionMinRNRTimer                   // field of IBTA 9.7.5.2.8, table 45, 0 to 31 (rdma_set_min_rnr_timer)
	OptionResponseTimeout               // how long to wait for an answer of the peer, 1 to 31: 4.096 µs × 2^n; 0 means 20, 4.3 s (of softrdma)
	OptionRetries                       // how often to resend a message without an answer, 1 to 15; 0 means 15 (of softrdma)
	OptionProtocol                      // protocol of the device, a verbs.Protocol, before Bind and ResolveAddr; UseDevice sets it (of softrdma)
	OptionRemoteUDPPort                 // UDP port of the peer's device if it is not 4791 (of softrdma)
)

var optionNames = [...]string{"TOS", "ReuseAddr", "AfOnly", "AckTimeout", "MinRNRTimer", "ResponseTimeout", "Retries", "Protocol", "RemoteUDPPort"}

// String returns the name of the option.
func (o Option) String() string {
	if o >= 0 && int(o) < len(optionNames) {
		return optionNames[o]
	}
	return fmt.Sprintf("Option(%d)", int(o))
}

// SetOption sets an option before the call that it affects (rdma_set_option). The
// ranges are at the options.
func (id *ID) SetOption(o Option, value int) error {
	limits := [...]int{math.MaxUint8, 1, 1, 31, 31, 31, 15, int(verbs.InfiniBand), math.MaxUint16}
	if o < 0 || int(o) >= len(limits) {
		return reason.BadArgument(uint64(len(limits)-1), uint64(o), "set option: expected one of %v, found %v", optionNames, o)
	}
	if value < 0 || value > limits[o] {
		return reason.BadArgument(uint64(limits[o]), uint64(value), "set option %v: expected 0 to %d, found %d", o, limits[o], value)
	}
	if err := id.setOption(o, value); err != nil {
		return fmt.Errorf("set option %v: %w", o, public(err))
	}
	return nil
}

func (id *ID) setOption(o Option, value int) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch o {
	case OptionProtocol:
		return id.c.SetProtocol(cmid.Protocol(value))
	case OptionResponseTimeout:
		id.timeout = uint8(value)
		return id.c.SetResponseTimeout(id.timeout, id.retries)
	case OptionRetries:
		id.retries = uint8(value)
		return id.c.SetResponseTimeout(id.timeout, id.retries)
	case OptionRemoteUDPPort:
		var local uint16
		if id.dev != nil {
			local = id.dev.Addr().Port()
		}
		id.remoteUDP = uint16(value)
		return id.c.SetUDPPorts(local, id.remoteUDP)
	}
	if err := setOption(id.c, o, value); err != nil {
		return err
	}
	if id.options == nil {
		id.options = make(map[Option]int)
	}
	id.options[o] = value
	return nil
}

// setOption sets an option that does not depend on others.
func setOption(c provider.ID, o Option, value int) error {
	switch o {
	case OptionTOS:
		return c.SetTOS(uint8(value))
	case OptionReuseAddr:
		return c.SetReuseAddr(value == 1)
	case OptionAfOnly:
		return c.SetAFOnly(value == 1)
	case OptionAckTimeout:
		return c.SetAckTimeout(uint8(value))
	}
	return c.SetMinRNRTimer(uint8(value))
}
