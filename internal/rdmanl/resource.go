package rdmanl

import "syscall"

// summaries returns how many objects of each kind there are.
func (r *request) summaries() ([][]byte, error) {
	return r.each(func(m *message, index int, d *Device) {
		o := r.src.Objects(index)
		m.handle(index, d)
		m.nested(attrSummary, func() {
			for _, x := range []struct {
				name string
				n    int
			}{
				{"pd", len(o.PDs)}, {"cq", len(o.CQs)}, {"qp", len(o.QPs)}, {"cm_id", len(o.IDs)},
				{"mr", len(o.MRs)}, {"ctx", len(o.Contexts)}, {"srq", len(o.SRQs)},
			} {
				m.nested(attrSummaryEntry, func() {
					m.text(attrSummaryName, x.name)
					m.u64(attrSummaryCurrent, uint64(x.n))
				})
			}
		})
	})
}

// A kind is a kind of objects: the attributes of a dump, the one by which a request names an
// object, and what fills in an object's.
type kind struct {
	table, entry, number uint16
	list                 func(o *Objects) []object
}

// An object fills in the attributes of an object.
type object struct {
	number uint32
	port   bool // it belongs to the port
	fill   func(m *message)
}

// list makes objects.
func list[T any](all []T, of func(x *T) object) (objects []object) {
	for i := range all {
		objects = append(objects, of(&all[i]))
	}
	return objects
}

var kinds = map[uint16]*kind{
	CmdResQPGet.Type(): {attrQP, attrQPEntry, AttrLQPN, func(o *Objects) []object {
		return list(o.QPs, func(x *QP) object { return object{x.QPN, true, x.fill} })
	}},
	CmdResCMIDGet.Type(): {attrCMID, attrCMIDEntry, attrCMIDN, func(o *Objects) []object {
		return list(o.IDs, func(x *Identifier) object { return object{x.Number, x.Port, x.fill} })
	}},
	CmdResCQGet.Type(): {attrCQ, attrCQEntry, attrCQN, func(o *Objects) []object {
		return list(o.CQs, func(x *CQ) object { return object{x.Number, false, x.fill} })
	}},
	CmdResMRGet.Type(): {attrMR, attrMREntry, attrMRN, func(o *Objects) []object {
		return list(o.MRs, func(x *MR) object { return object{x.Number, false, x.fill} })
	}},
	CmdResPDGet.Type(): {attrPD, attrPDEntry, attrPDN, func(o *Objects) []object {
		return list(o.PDs, func(x *PD) object { return object{x.Number, false, x.fill} })
	}},
	CmdResCtxGet.Type(): {attrCtx, attrCtxEntry, attrCtxN, func(o *Objects) []object {
		return list(o.Contexts, func(x *Context) object { return object{x.Number, false, x.fill} })
	}},
	CmdResSRQGet.Type(): {attrSRQ, attrSRQEntry, attrSRQN, func(o *Objects) []object {
		return list(o.SRQs, func(x *SRQ) object { return object{x.Number, false, x.fill} })
	}},
}

// objects returns the objects of a kind on a device, or the one that a request names.
func (r *request) objects() ([][]byte, error) {
	k := kinds[r.Type]
	index, d, err := r.device()
	if err != nil {
		return nil, err
	}
	port, ported, err := r.attrs.Uint32(AttrPortIndex)
	if err != nil || ported && port != 1 {
		return nil, syscall.EINVAL
	}
	all := k.list(r.src.Objects(index))
	if !r.dump {
		return r.object(k, index, &d, all)
	}
	var messages [][]byte
	for len(all) > 0 {
		m := r.message()
		m.handle(index, &d)
		m.nested(k.table, func() {
			for len(all) > 0 && len(m.b) < maxMessage {
				if !ported || all[0].port {
					m.nested(k.entry, func() { all[0].fill(m) })
				}
				all = all[1:]
			}
		})
		messages = append(messages, m.bytes())
	}
	return messages, nil
}

// object returns one object.
func (r *request) object(k *kind, index int, d *Device, all []object) ([][]byte, error) {
	number, ok, err := r.attrs.Uint32(k.number)
	if err != nil || !ok {
		return nil, syscall.EINVAL
	}
	for _, x := range all {
		if x.number == number {
			m := r.message()
			m.handle(index, d)
			x.fill(m)
			return [][]byte{m.bytes()}, nil
		}
	}
	return nil, syscall.ENOENT
}

// owner puts the process by number: its name is what /proc says.
func (m *message) owner(o *Owner) {
	if o.Kernel != "" {
		m.text(attrKernelName, o.Kernel)
		return
	}
	m.u32(AttrPID, o.PID)
}

func (q *QP) fill(m *message) {
	m.u32(AttrPortIndex, 1)
	m.u32(AttrLQPN, q.QPN)
	if q.connected() {
		m.u32(attrRQPN, q.RemoteQPN)
		m.u32(attrRQPSN, q.RecvPSN)
	}
	m.u32(attrSQPSN, q.SendPSN)
	if q.connected() {
		m.u8(attrPathMigState, 0) // migrated
	}
	m.u8(attrType, q.Type)
	m.u8(attrState, q.State)
	if !q.IsInternal {
		m.u32(attrPDN, q.PD)
	}
	m.owner(&q.Owner)
}

func (x *Identifier) fill(m *message) {
	if x.Port {
		m.u32(AttrPortIndex, 1)
	}
	if x.QPN != 0 {
		m.u32(AttrLQPN, x.QPN)
		m.u8(attrType, x.Type)
	}
	m.u32(attrPortSpace, x.PortSpace)
	m.u8(attrState, x.State)
	m.address(attrSrcAddr, x.Src)
	m.address(attrDstAddr, x.Dst)
	m.u32(attrCMIDN, x.Number)
	m.owner(&x.Owner)
}

func (q *CQ) fill(m *message) {
	m.u32(attrCQE, q.Entries)
	m.u64(attrUseCount, q.Uses)
	m.u8(attrDevDIM, 0)
	m.u32(attrCQN, q.Number)
	m.u32(attrCtxN, q.Context)
	m.owner(&q.Owner)
}

func (x *MR) fill(m *message) {
	m.u32(attrRKey, x.RKey)
	m.u32(attrLKey, x.LKey)
	m.u64(attrMRLength, x.Length)
	m.u32(attrMRN, x.Number)
	m.u32(attrPDN, x.PD)
	m.owner(&x.Owner)
}

func (p *PD) fill(m *message) {
	m.u64(attrUseCount, p.Uses)
	m.u32(attrPDN, p.Number)
	m.u32(attrCtxN, p.Context)
	m.owner(&p.Owner)
}

func (c *Context) fill(m *message) {
	m.u32(attrCtxN, c.Number)
	m.owner(&c.Owner)
}

// maxListed is how many queue pairs of a shared receive queue are listed: a message has limits.
const maxListed = 64

func (s *SRQ) fill(m *message) {
	m.u32(attrSRQN, s.Number)
	m.u8(attrType, 0) // basic
	m.u32(attrPDN, s.PD)
	if len(s.QPs) > 0 {
		m.nested(attrQP, func() {
			for _, n := range s.QPs[:min(len(s.QPs), maxListed)] {
				m.nested(attrQPEntry, func() { m.u32(AttrLQPN, n) })
			}
		})
	}
	m.owner(&s.Owner)
}
