package rdmanl

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// maxMessage is the length up to which a dump adds objects to a message. Readers have room for a
// page (MNL_SOCKET_BUFFER_SIZE of libmnl).
const maxMessage = 3 << 10

// A request is a parsed request.
type request struct {
	Header
	src   Source
	attrs Attributes
	dump  bool
}

// flags returns those of the messages that answer.
func (r *request) flags() uint16 {
	if r.dump {
		return flagMulti
	}
	return 0
}

func (r *request) message() *message { return newMessage(&r.Header, r.Type, r.flags()) }

// Answer returns the messages that answer a request, none if it is not a message.
func Answer(src Source, b []byte) [][]byte {
	h, attrs, ok := parse(b)
	if !ok {
		return nil
	}
	r := &request{Header: h, src: src, dump: h.Flags&flagDump == flagDump}
	var err error
	if r.attrs, err = ParseAttributes(attrs); err != nil {
		return [][]byte{refusal(&h, syscall.EINVAL)}
	}
	do := handlers[r.Type]
	if do == nil {
		return [][]byte{refusal(&h, syscall.EOPNOTSUPP)}
	}
	list, err := do(r)
	switch {
	case err != nil:
		return [][]byte{refusal(&h, err)}
	case r.dump:
		m := newMessage(&h, typeDone, flagMulti)
		m.raw(make([]byte, 4))
		return append(list, m.bytes())
	case h.Flags&flagAck != 0:
		return append(list, refusal(&h, nil))
	}
	return list
}

// handlers are the commands by the types of their messages.
var handlers = map[uint16]func(*request) ([][]byte, error){
	CmdGet.Type():         (*request).devices,
	CmdPortGet.Type():     (*request).ports,
	CmdSysGet.Type():      (*request).system,
	CmdResGet.Type():      (*request).summaries,
	CmdGetChardev.Type():  (*request).chardev,
	CmdStatGet.Type():     (*request).statistics,
	CmdStatGetStat.Type(): (*request).statisticNames,
	CmdResQPGet.Type():    (*request).objects,
	CmdResCMIDGet.Type():  (*request).objects,
	CmdResCQGet.Type():    (*request).objects,
	CmdResMRGet.Type():    (*request).objects,
	CmdResPDGet.Type():    (*request).objects,
	CmdResCtxGet.Type():   (*request).objects,
	CmdResSRQGet.Type():   (*request).objects,
}

// refusal refuses a request, or with nil acknowledges it.
func refusal(h *Header, err error) []byte {
	var no syscall.Errno
	if err != nil && !errors.As(err, &no) {
		no = syscall.EINVAL
	}
	m := newMessage(h, typeError, 0)
	m.raw(binary.NativeEndian.AppendUint32(nil, uint32(-int32(no))))
	m.raw(h.append(nil))
	return m.bytes()
}

// device returns the device that a request names.
func (r *request) device() (index int, d Device, err error) {
	i, ok, err := r.attrs.Uint32(AttrDevIndex)
	all := r.src.Devices()
	if err != nil || !ok || uint64(i) >= uint64(len(all)) {
		return 0, d, syscall.EINVAL
	}
	return int(i), all[i], nil
}

// handle puts what identifies a device.
func (m *message) handle(index int, d *Device) {
	m.u32(AttrDevIndex, uint32(index))
	m.text(AttrDevName, d.Name)
}

// each calls f for all devices of a dump, or for the one that the request names.
func (r *request) each(f func(m *message, index int, d *Device)) (list [][]byte, _ error) {
	add := func(index int, d *Device) {
		m := r.message()
		f(m, index, d)
		list = append(list, m.bytes())
	}
	if r.dump {
		for i, d := range r.src.Devices() {
			add(i, &d)
		}
		return list, nil
	}
	i, d, err := r.device()
	if err != nil {
		return nil, err
	}
	add(i, &d)
	return list, nil
}

func (r *request) devices() ([][]byte, error) {
	return r.each(func(m *message, index int, d *Device) {
		m.handle(index, d)
		m.u32(AttrPortIndex, 1) // the last one
		m.u64(AttrCapFlags, d.Caps)
		m.u64(AttrNodeGUID, d.NodeGUID)
		m.u64(AttrSysImageGUID, d.SysImageGUID)
		m.u8(AttrDevNodeType, d.NodeType)
		m.u8(attrDevDIM, 0)
		m.text(AttrDevProtocol, d.Protocol)
	})
}

// ports describes the port of a device.
func (r *request) ports() ([][]byte, error) {
	index, d, err := r.device()
	if err != nil {
		return nil, err
	}
	p, m := r.src.Port(index), r.message()
	m.handle(index, &d)
	m.u32(AttrPortIndex, 1)
	if ib := p.InfiniBand; ib != nil {
		m.u64(AttrCapFlags, ib.CapFlags)
		m.u64(AttrSubnetPrefix, ib.SubnetPrefix)
		m.u32(AttrLID, ib.LID)
		m.u32(AttrSMLID, ib.SMLID)
		m.u8(AttrLMC, ib.LMC)
	}
	m.u8(AttrPortState, p.State)
	m.u8(AttrPortPhysState, p.PhysState)
	if p.InfiniBand == nil {
		m.u32(AttrNdevIndex, p.InterfaceIndex)
		m.text(AttrNdevName, p.Interface)
	}
	return [][]byte{m.bytes()}, nil
}

// netnsShared says that devices are in all network namespaces, as Linux begins.
const netnsShared = 1

func (r *request) system() ([][]byte, error) {
	m := r.message()
	m.u8(attrNetnsMode, netnsShared)
	m.u8(AttrCopyOnFork, 1) // regions are found by address, so fork needs no help
	m.u8(attrMonitorMode, 1)
	return [][]byte{m.bytes()}, nil
}

// chardev describes the device file of a kind.
func (r *request) chardev() ([][]byte, error) {
	index := -1
	if _, ok := r.attrs[AttrDevIndex]; ok {
		var err error
		if index, _, err = r.device(); err != nil {
			return nil, err
		}
	}
	c, ok := r.src.Chardev(text(r.attrs[AttrChardevType]), index)
	if !ok {
		return nil, syscall.EOPNOTSUPP
	}
	m := r.message()
	m.u64(AttrChardev, c.Number)
	m.u64(AttrChardevABI, c.ABI)
	m.text(AttrChardevName, c.Name)
	if c.DriverID != nil {
		m.u32(AttrDriverID, *c.DriverID)
	}
	return [][]byte{m.bytes()}, nil
}

// text returns the text up to a zero byte.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
