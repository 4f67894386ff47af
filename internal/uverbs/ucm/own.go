//go:build linux

package ucm

import (
	"math"
	"syscall"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/uverbs/uapi"
)

// owned marks the file as one of a program of this module.
func (m *channel) owned(c *command) error {
	q, _ := uapi.Parse[uapi.OwnCM](c.in)
	if q.Flags != 0 {
		return syscall.EINVAL
	}
	m.own = true
	return c.respond(q.Response, uapi.Bytes(&uapi.OwnCMResp{Reasons: uapi.Reasons()}))
}

// ownEvent returns what is added to an event for such a program.
func ownEvent(e *cma.Event) (o uapi.OwnCMEvent) {
	uapi.PutAddr(o.Local[:], e.ID.Local())
	uapi.PutAddr(o.Remote[:], e.ID.Remote())
	o.UDPPort = e.UD.Path.Dst.Port()
	o.Reason, o.Expected, o.Found = uint32(e.Detail.Reason), e.Detail.Expected, e.Detail.Found
	if e.Err != nil {
		o.TextLen = uint32(copy(o.Text[:], e.Err.Error()))
	}
	return o
}

// ownOption sets an option that librdmacm does not have.
func ownOption(id *cma.ID, name, value uint32) error {
	limit := uint32(math.MaxUint8)
	if name == uapi.CMOwnUDPPort || name == uapi.CMOwnTimeout {
		limit = math.MaxUint16
	}
	if value > limit {
		return syscall.EINVAL
	}
	switch name {
	case uapi.CMOwnProtocol:
		if value > uint32(cmid.Any) {
			return syscall.EINVAL
		}
		return id.SetProtocol(cmid.Protocol(value))
	case uapi.CMOwnMinRNRTimer:
		return id.SetMinRNRTimer(uint8(value))
	case uapi.CMOwnUDPPort:
		return id.SetUDPPorts(0, uint16(value))
	case uapi.CMOwnTimeout:
		return id.SetResponseTimeout(uint8(value), uint8(value>>8))
	}
	return syscall.ENOSYS
}
