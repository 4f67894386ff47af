package rdmanl

import (
	"syscall"

	"softrdma/internal/object"
)

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
				{"mr", len(regions(o))}, {"ctx", len(o.Contexts)}, {"srq", len(o.SRQs)},
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
	list                 func(o *object.List) []entry
}

// An entry fills in the attributes of an object.
type entry struct {
	number uint32
	port   bool // it belongs to the port
	fill   func(m *message)
}

// list makes entries.
func list[T any](all []T, of func(x *T) entry) (entries []entry) {
	for i := range all {
		entries = append(entries, of(&all[i]))
	}
	return entries
}

var kinds = map[uint16]*kind{
	CmdResQPGet.Type(): {attrQP, attrQPEntry, AttrLQPN, func(o *object.List) []entry {
		return list(o.QPs, func(x *object.QP) entry { return entry{x.Number, true, func(m *message) { m.queuePair(x) }} })
	}},
	CmdResCMIDGet.Type(): {attrCMID, attrCMIDEntry, attrCMIDN, func(o *object.List) []entry {
		return list(o.IDs, func(x *object.ID) entry { return entry{x.Number, x.Bound, func(m *message) { m.identifier(x) }} })
	}},
	CmdResCQGet.Type(): {attrCQ, attrCQEntry, attrCQN, func(o *object.List) []entry {
		return list(o.CQs, func(x *object.CQ) entry { return entry{x.Number, false, func(m *message) { m.completionQueue(x) }} })
	}},
	CmdResMRGet.Type(): {attrMR, attrMREntry, attrMRN, func(o *object.List) []entry {
		return list(regions(o), func(x *object.Region) entry { return entry{x.Number, false, func(m *message) { m.region(x) }} })
	}},
	CmdResPDGet.Type(): {attrPD, attrPDEntry, attrPDN, func(o *object.List) []entry {
		return list(o.PDs, func(x *object.PD) entry { return entry{x.Number, false, func(m *message) { m.domain(x) }} })
	}},
	CmdResCtxGet.Type(): {attrCtx, attrCtxEntry, attrCtxN, func(o *object.List) []entry {
		return list(o.Contexts, func(x *object.Context) entry { return entry{x.Context, false, func(m *message) { m.context(x) }} })
	}},
	CmdResSRQGet.Type(): {attrSRQ, attrSRQEntry, attrSRQN, func(o *object.List) []entry {
		return list(o.SRQs, func(x *object.SRQ) entry {
			return entry{x.Number, false, func(m *message) { m.sharedReceiveQueue(x, o.QPs) }}
		})
	}},
}

// regions returns the memory regions, without windows.
func regions(o *object.List) (list []object.Region) {
	for _, x := range o.MRs {
		if x.Kind == "mr" {
			list = append(list, x)
		}
	}
	return list
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
func (r *request) object(k *kind, index int, d *Device, all []entry) ([][]byte, error) {
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
func (m *message) owner(o *object.Owner) { m.u32(AttrPID, uint32(o.PID)) }

// qpTypes are the numbers of queue pairs' types (enum ib_qp_type).
var qpTypes = map[string]uint8{"RC": 2, "UC": 3, "UD": 4, "XRC_SEND": 9, "XRC_RECV": 10}

// names are the numbers of names, by their order.
func names(list ...string) map[string]uint8 {
	m := make(map[string]uint8)
	for i, x := range list {
		m[x] = uint8(i)
	}
	return m
}

// qpStates are the numbers of queue pairs' states (enum ib_qp_state), idStates those of ids
// (enum rdma_cm_state).
var (
	qpStates = names("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
	idStates = names("IDLE", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT", "DISCONNECT",
		"ADDR_BOUND", "LISTEN", "DEVICE_REMOVAL", "DESTROYING")
)

// portSpaces are the numbers of port spaces (enum rdma_ucm_port_space).
var portSpaces = map[string]uint32{"IPoIB": 0x2, "TCP": 0x106, "UDP": 0x111, "IB": 0x13f}

func (m *message) queuePair(x *object.QP) {
	m.u32(AttrPortIndex, 1)
	m.u32(AttrLQPN, x.Number)
	connected := x.Type == "RC" || x.Type == "UC"
	if connected {
		m.u32(attrRQPN, x.PeerQP)
		m.u32(attrRQPSN, x.RQPSN)
	}
	m.u32(attrSQPSN, x.SQPSN)
	if connected {
		m.u8(attrPathMigState, 0) // migrated
	}
	m.u8(attrType, qpTypes[x.Type])
	m.u8(attrState, qpStates[x.State])
	m.u32(attrPDN, x.PD)
	m.owner(&x.Owner)
}

func (m *message) identifier(x *object.ID) {
	if x.Bound {
		m.u32(AttrPortIndex, 1)
	}
	if x.QP != 0 {
		m.u32(AttrLQPN, x.QP)
		m.u8(attrType, qpTypes[x.Type])
	}
	m.u32(attrPortSpace, portSpaces[x.PortSpace])
	m.u8(attrState, idStates[x.State])
	m.address(attrSrcAddr, x.Source)
	m.address(attrDstAddr, x.Peer)
	m.u32(attrCMIDN, x.Number)
	m.owner(&x.Owner)
}

func (m *message) completionQueue(x *object.CQ) {
	m.u32(attrCQE, uint32(x.Depth))
	m.u64(attrUseCount, uint64(x.Users))
	m.u8(attrDevDIM, 0)
	m.u32(attrCQN, x.Number)
	m.u32(attrCtxN, x.Context)
	m.owner(&x.Owner)
}

func (m *message) region(x *object.Region) {
	m.u32(attrRKey, x.Key)
	m.u32(attrLKey, x.Key)
	m.u64(attrMRLength, x.Length)
	m.u32(attrMRN, x.Number)
	m.u32(attrPDN, x.PD)
	m.owner(&x.Owner)
}

func (m *message) domain(x *object.PD) {
	m.u64(attrUseCount, uint64(x.Users))
	m.u32(attrPDN, x.Number)
	m.u32(attrCtxN, x.Context)
	m.owner(&x.Owner)
}

func (m *message) context(x *object.Context) {
	m.u32(attrCtxN, x.Context)
	m.owner(&x.Owner)
}

// maxListed is how many queue pairs of a shared receive queue are listed: a message has limits.
const maxListed = 64

func (m *message) sharedReceiveQueue(x *object.SRQ, qps []object.QP) {
	m.u32(attrSRQN, x.Number)
	m.u8(attrType, 0) // basic
	m.u32(attrPDN, x.PD)
	if x.Users > 0 {
		m.nested(attrQP, func() {
			n := 0
			for i := range qps {
				if qps[i].SRQ == x.Number && n < maxListed {
					m.nested(attrQPEntry, func() { m.u32(AttrLQPN, qps[i].Number) })
					n++
				}
			}
		})
	}
	m.owner(&x.Owner)
}
