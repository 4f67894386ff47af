//go:build linux

package daemon

import (
	"crypto/tls"
	"encoding/binary"

	"softrdma/internal/cmid"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// option sets an option by its level, name and value.
func (x *id) option(op string, level, name uint32, value []byte) error {
	h, err := x.channel(op)
	if err != nil {
		return err
	}
	q := uapi.CMOption{ID: x.num, Level: level, Name: name, Len: uint32(len(value))}
	_, err = h.command(uapi.CMSetOption, uapi.Bytes(&q), 0, 0, value)
	return err
}

// ownOption sets an option that librdmacm does not have.
func (x *id) ownOption(op string, name uint32, value uint32) error {
	return x.option(op, uapi.CMOptionOwn, name, binary.NativeEndian.AppendUint32(nil, value))
}

func flag(on bool) []byte {
	if on {
		return binary.NativeEndian.AppendUint32(nil, 1)
	}
	return make([]byte, 4)
}

// SetTOS implements provider.Options.
func (x *id) SetTOS(tos uint8) error {
	return x.option("set TOS", uapi.CMOptionID, uapi.CMOptionTOS, []byte{tos})
}

// SetReuseAddr implements provider.Options.
func (x *id) SetReuseAddr(on bool) error {
	return x.option("set reuse address", uapi.CMOptionID, uapi.CMOptionReuseAddr, flag(on))
}

// SetAFOnly implements provider.Options.
func (x *id) SetAFOnly(on bool) error {
	return x.option("set AF only", uapi.CMOptionID, uapi.CMOptionAFOnly, flag(on))
}

// SetAckTimeout implements provider.Options.
func (x *id) SetAckTimeout(field uint8) error {
	return x.option("set acknowledge timeout", uapi.CMOptionID, uapi.CMOptionAckTimeout, []byte{field})
}

// SetMinRNRTimer implements provider.Options.
func (x *id) SetMinRNRTimer(field uint8) error {
	return x.ownOption("set minimum RNR timer", uapi.CMOwnMinRNRTimer, uint32(field))
}

// SetUDPPorts implements provider.Options. The daemon knows its device's port.
func (x *id) SetUDPPorts(_, remote uint16) error {
	return x.ownOption("set UDP ports", uapi.CMOwnUDPPort, uint32(remote))
}

// SetResponseTimeout implements provider.Options.
func (x *id) SetResponseTimeout(field, retries uint8) error {
	return x.ownOption("set response timeout", uapi.CMOwnTimeout, uint32(field)|uint32(retries)<<8)
}

// SetProtocol implements provider.Options.
func (x *id) SetProtocol(p cmid.Protocol) error {
	return x.ownOption("set protocol", uapi.CMOwnProtocol, uint32(p))
}

// SetTLS implements provider.Options. The daemon decided about TLS when it opened
// the device.
func (x *id) SetTLS(*tls.Config) error {
	return reason.NotSupported("set TLS: the daemon chose it when it opened the device")
}
