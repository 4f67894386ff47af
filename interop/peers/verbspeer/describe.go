package main

import (
	"fmt"

	"softrdma/interop/peers/exerciser"
	"softrdma/verbs"
)

// The results use the names of libibverbs without their prefixes.

var statusName = map[verbs.Status]string{
	verbs.Success: "SUCCESS", verbs.LocLenErr: "LOC_LEN_ERR", verbs.LocQPOpErr: "LOC_QP_OP_ERR", verbs.LocEECOpErr: "LOC_EEC_OP_ERR",
	verbs.LocProtErr: "LOC_PROT_ERR", verbs.WRFlushErr: "WR_FLUSH_ERR", verbs.MWBindErr: "MW_BIND_ERR", verbs.BadRespErr: "BAD_RESP_ERR",
	verbs.LocAccessErr: "LOC_ACCESS_ERR", verbs.RemInvReqErr: "REM_INV_REQ_ERR", verbs.RemAccessErr: "REM_ACCESS_ERR", verbs.RemOpErr: "REM_OP_ERR",
	verbs.RetryExcErr: "RETRY_EXC_ERR", verbs.RNRRetryExcErr: "RNR_RETRY_EXC_ERR", verbs.LocRDDViolErr: "LOC_RDD_VIOL_ERR",
	verbs.RemInvRDReqErr: "REM_INV_RD_REQ_ERR", verbs.RemAbortErr: "REM_ABORT_ERR", verbs.InvEECNErr: "INV_EECN_ERR",
	verbs.InvEECStateErr: "INV_EEC_STATE_ERR", verbs.FatalErr: "FATAL_ERR", verbs.RespTimeoutErr: "RESP_TIMEOUT_ERR", verbs.GeneralErr: "GENERAL_ERR",
}

var opcodeName = map[verbs.WCOp]string{
	verbs.WCSend: "SEND", verbs.WCWrite: "RDMA_WRITE", verbs.WCRead: "RDMA_READ", verbs.WCCompareSwap: "COMP_SWAP", verbs.WCFetchAdd: "FETCH_ADD",
	verbs.WCBindMW: "BIND_MW", verbs.WCLocalInv: "LOCAL_INV", verbs.WCRecv: "RECV", verbs.WCRecvRDMAImm: "RECV_RDMA_WITH_IMM",
}

var stateName = map[verbs.State]string{
	verbs.Reset: "RESET", verbs.Init: "INIT", verbs.RTR: "RTR", verbs.RTS: "RTS", verbs.SQD: "SQD", verbs.SQE: "SQE", verbs.Err: "ERR",
}

var accessBit = map[string]verbs.Access{
	"LOCAL_WRITE": verbs.LocalWrite, "REMOTE_WRITE": verbs.RemoteWrite, "REMOTE_READ": verbs.RemoteRead,
	"REMOTE_ATOMIC": verbs.RemoteAtomic, "MW_BIND": verbs.MWBind,
}

func accessOf(names []string) verbs.Access {
	var a verbs.Access
	for _, name := range names {
		a |= accessBit[name]
	}
	return a
}

// describe returns the fields of a completion that the standard defines for its status, operation
// and queue.
func (e *end) describe(queue string, wc *verbs.WC) exerciser.Completion {
	c := exerciser.Completion{WR: wc.WRID, Status: statusName[wc.Status]}
	if wc.Status != verbs.Success {
		return c
	}
	c.Opcode = opcodeName[wc.Op]
	if queue == "send" {
		switch wc.Op {
		case verbs.WCRead, verbs.WCCompareSwap, verbs.WCFetchAdd:
			c.ByteLen = &wc.ByteLen
		}
		return c
	}
	c.ByteLen = &wc.ByteLen
	datagram := e.scenario.QP == "UD"
	if datagram && wc.Flags&verbs.WCGRH != 0 {
		c.Flags = append(c.Flags, "GRH")
	}
	if wc.Flags&verbs.WCWithImm != 0 {
		c.Flags, c.Imm = append(c.Flags, "WITH_IMM"), &wc.Imm
	}
	if wc.Flags&verbs.WCWithInv != 0 {
		c.Flags, c.Invalidated = append(c.Flags, "WITH_INV"), "mw"
		if wc.InvalidatedKey != e.mwKey {
			c.Invalidated = fmt.Sprintf("%#x", wc.InvalidatedKey)
		}
	}
	if datagram {
		c.SrcQP = "peer"
		if wc.SrcQPN != e.other.QPN {
			c.SrcQP = fmt.Sprintf("%#x", wc.SrcQPN)
		}
	}
	return c
}
