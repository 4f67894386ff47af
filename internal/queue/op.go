package queue

import "fmt"

var opNames = [...]string{
	Write: "IBV_WR_RDMA_WRITE", WriteImm: "IBV_WR_RDMA_WRITE_WITH_IMM", Send: "IBV_WR_SEND", SendImm: "IBV_WR_SEND_WITH_IMM",
	Read: "IBV_WR_RDMA_READ", CompareSwap: "IBV_WR_ATOMIC_CMP_AND_SWP", FetchAdd: "IBV_WR_ATOMIC_FETCH_AND_ADD",
	LocalInv: "IBV_WR_LOCAL_INV", BindMW: "IBV_WR_BIND_MW", SendInv: "IBV_WR_SEND_WITH_INV", Flush: "IBV_WR_FLUSH", AtomicWrite: "IBV_WR_ATOMIC_WRITE",
}

// Known reports whether there is such an operation.
func (o Op) Known() bool { return int(o) < len(opNames) && opNames[o] != "" }

// Local reports whether an operation sends nothing (IBTA 10.6.7, 11.4.1.1).
func (o Op) Local() bool { return o == BindMW || o == LocalInv }

// Atomic reports whether the answer to an operation is the word's original value.
func (o Op) Atomic() bool { return o == CompareSwap || o == FetchAdd }

// TakesReceive reports whether an operation consumes a receive of the peer.
func (o Op) TakesReceive() bool {
	return o == Send || o == SendImm || o == SendInv || o == WriteImm
}

// String returns the name that libibverbs gives the operation.
func (o Op) String() string {
	if o.Known() {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint32(o))
}

var wcOpNames = map[WCOp]string{
	WCSend: "IBV_WC_SEND", WCWrite: "IBV_WC_RDMA_WRITE", WCRead: "IBV_WC_RDMA_READ", WCCompareSwap: "IBV_WC_COMP_SWAP",
	WCFetchAdd: "IBV_WC_FETCH_ADD", WCBindMW: "IBV_WC_BIND_MW", WCLocalInv: "IBV_WC_LOCAL_INV",
	WCFlush: "IBV_WC_FLUSH", WCAtomicWrite: "IBV_WC_ATOMIC_WRITE", WCRecv: "IBV_WC_RECV", WCRecvRDMAImm: "IBV_WC_RECV_RDMA_WITH_IMM",
}

// Known reports whether there is such an operation.
func (o WCOp) Known() bool { return wcOpNames[o] != "" }

// String returns libibverbs' name of the completed operation.
func (o WCOp) String() string {
	if s, ok := wcOpNames[o]; ok {
		return s
	}
	return fmt.Sprintf("completed operation %d", uint32(o))
}
