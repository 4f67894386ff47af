package verbs_test

import (
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
	"softrdma/verbs"
)

// The package defines its own types, so that go doc shows them, and converts them by number:
// each number must be the device's.
func TestNumbersAreTheDevices(t *testing.T) {
	for name, c := range map[string][2]uint32{
		"RC": {uint32(verbs.RC), uint32(qp.RC)}, "UC": {uint32(verbs.UC), uint32(qp.UC)}, "UD": {uint32(verbs.UD), uint32(qp.UD)},
		"XRCSend": {uint32(verbs.XRCSend), uint32(qp.XRCSend)}, "XRCRecv": {uint32(verbs.XRCRecv), uint32(qp.XRCRecv)},

		"Reset": {uint32(verbs.Reset), uint32(qp.Reset)}, "Init": {uint32(verbs.Init), uint32(qp.Init)},
		"RTR": {uint32(verbs.RTR), uint32(qp.RTR)}, "RTS": {uint32(verbs.RTS), uint32(qp.RTS)}, "SQD": {uint32(verbs.SQD), uint32(qp.SQD)},
		"SQE": {uint32(verbs.SQE), uint32(qp.SQE)}, "Err": {uint32(verbs.Err), uint32(qp.Err)},

		"LocalWrite": {uint32(verbs.LocalWrite), uint32(qp.LocalWrite)}, "RemoteWrite": {uint32(verbs.RemoteWrite), uint32(qp.RemoteWrite)},
		"RemoteRead": {uint32(verbs.RemoteRead), uint32(qp.RemoteRead)}, "RemoteAtomic": {uint32(verbs.RemoteAtomic), uint32(qp.RemoteAtomic)},
		"MWBind": {uint32(verbs.MWBind), uint32(qp.MWBind)}, "ZeroBased": {uint32(verbs.ZeroBased), uint32(qp.ZeroBased)},
		"FlushGlobal": {uint32(verbs.FlushGlobal), uint32(qp.FlushGlobal)}, "FlushPersistent": {uint32(verbs.FlushPersistent), uint32(qp.FlushPersistent)},

		"OpWrite": {uint32(verbs.OpWrite), uint32(queue.Write)}, "OpWriteImm": {uint32(verbs.OpWriteImm), uint32(queue.WriteImm)},
		"OpSend": {uint32(verbs.OpSend), uint32(queue.Send)}, "OpSendImm": {uint32(verbs.OpSendImm), uint32(queue.SendImm)},
		"OpRead": {uint32(verbs.OpRead), uint32(queue.Read)}, "OpCompareSwap": {uint32(verbs.OpCompareSwap), uint32(queue.CompareSwap)},
		"OpFetchAdd": {uint32(verbs.OpFetchAdd), uint32(queue.FetchAdd)}, "OpLocalInv": {uint32(verbs.OpLocalInv), uint32(queue.LocalInv)},
		"OpBindMW": {uint32(verbs.OpBindMW), uint32(queue.BindMW)}, "OpSendInv": {uint32(verbs.OpSendInv), uint32(queue.SendInv)},
		"OpFlush": {uint32(verbs.OpFlush), uint32(queue.Flush)}, "OpAtomicWrite": {uint32(verbs.OpAtomicWrite), uint32(queue.AtomicWrite)},

		"Fence": {uint32(verbs.Fence), uint32(queue.Fence)}, "Signaled": {uint32(verbs.Signaled), uint32(queue.Signaled)},
		"Solicited": {uint32(verbs.Solicited), uint32(queue.Solicited)},

		"GlobalVisibility": {uint32(verbs.GlobalVisibility), uint32(ib.GlobalVisibility)}, "Persistence": {uint32(verbs.Persistence), uint32(ib.Persistence)},

		"WCSend": {uint32(verbs.WCSend), uint32(queue.WCSend)}, "WCWrite": {uint32(verbs.WCWrite), uint32(queue.WCWrite)},
		"WCRead": {uint32(verbs.WCRead), uint32(queue.WCRead)}, "WCCompareSwap": {uint32(verbs.WCCompareSwap), uint32(queue.WCCompareSwap)},
		"WCFetchAdd": {uint32(verbs.WCFetchAdd), uint32(queue.WCFetchAdd)}, "WCBindMW": {uint32(verbs.WCBindMW), uint32(queue.WCBindMW)},
		"WCLocalInv": {uint32(verbs.WCLocalInv), uint32(queue.WCLocalInv)}, "WCRecv": {uint32(verbs.WCRecv), uint32(queue.WCRecv)},
		"WCFlush": {uint32(verbs.WCFlush), uint32(queue.WCFlush)}, "WCAtomicWrite": {uint32(verbs.WCAtomicWrite), uint32(queue.WCAtomicWrite)},
		"WCRecvRDMAImm": {uint32(verbs.WCRecvRDMAImm), uint32(queue.WCRecvRDMAImm)},
		"WCGRH":         {uint32(verbs.WCGRH), queue.WCGRH}, "WCWithImm": {uint32(verbs.WCWithImm), queue.WCImm}, "WCWithInv": {uint32(verbs.WCWithInv), queue.WCWithInv},

		"Success": {uint32(verbs.Success), uint32(queue.Success)}, "LocLenErr": {uint32(verbs.LocLenErr), uint32(queue.LocLenErr)},
		"LocQPOpErr": {uint32(verbs.LocQPOpErr), uint32(queue.LocQPOpErr)}, "LocEECOpErr": {uint32(verbs.LocEECOpErr), uint32(queue.LocEECOpErr)},
		"LocProtErr": {uint32(verbs.LocProtErr), uint32(queue.LocProtErr)}, "WRFlushErr": {uint32(verbs.WRFlushErr), uint32(queue.WRFlushErr)},
		"MWBindErr": {uint32(verbs.MWBindErr), uint32(queue.MWBindErr)}, "BadRespErr": {uint32(verbs.BadRespErr), uint32(queue.BadRespErr)},
		"LocAccessErr": {uint32(verbs.LocAccessErr), uint32(queue.LocAccessErr)}, "RemInvReqErr": {uint32(verbs.RemInvReqErr), uint32(queue.RemInvReqErr)},
		"RemAccessErr": {uint32(verbs.RemAccessErr), uint32(queue.RemAccessErr)}, "RemOpErr": {uint32(verbs.RemOpErr), uint32(queue.RemOpErr)},
		"RetryExcErr": {uint32(verbs.RetryExcErr), uint32(queue.RetryExcErr)}, "RNRRetryExcErr": {uint32(verbs.RNRRetryExcErr), uint32(queue.RNRRetryExcErr)},
		"LocRDDViolErr": {uint32(verbs.LocRDDViolErr), uint32(queue.LocRDDViolErr)}, "RemInvRDReqErr": {uint32(verbs.RemInvRDReqErr), uint32(queue.RemInvRDReqErr)},
		"RemAbortErr": {uint32(verbs.RemAbortErr), uint32(queue.RemAbortErr)}, "InvEECNErr": {uint32(verbs.InvEECNErr), uint32(queue.InvEECNErr)},
		"InvEECStateErr": {uint32(verbs.InvEECStateErr), uint32(queue.InvEECStateErr)}, "FatalErr": {uint32(verbs.FatalErr), uint32(queue.FatalErr)},
		"RespTimeoutErr": {uint32(verbs.RespTimeoutErr), uint32(queue.RespTimeoutErr)}, "GeneralErr": {uint32(verbs.GeneralErr), uint32(queue.GeneralErr)},

		"EventCQErr": {uint32(verbs.EventCQErr), uint32(machine.EventCQErr)}, "EventQPFatal": {uint32(verbs.EventQPFatal), uint32(machine.EventQPFatal)},
		"EventQPReqErr": {uint32(verbs.EventQPReqErr), uint32(machine.EventQPReqErr)}, "EventQPAccessErr": {uint32(verbs.EventQPAccessErr), uint32(machine.EventQPAccessErr)},
		"EventCommEst": {uint32(verbs.EventCommEst), uint32(machine.EventCommEst)}, "EventSQDrained": {uint32(verbs.EventSQDrained), uint32(machine.EventSQDrained)},
		"EventDeviceFatal": {uint32(verbs.EventDeviceFatal), uint32(machine.EventDeviceFatal)}, "EventPortActive": {uint32(verbs.EventPortActive), uint32(machine.EventPortActive)},
		"EventPortErr": {uint32(verbs.EventPortErr), uint32(machine.EventPortErr)}, "EventSRQErr": {uint32(verbs.EventSRQErr), uint32(machine.EventSRQErr)},
		"EventSRQLimitReached":  {uint32(verbs.EventSRQLimitReached), uint32(machine.EventSRQLimitReached)},
		"EventQPLastWQEReached": {uint32(verbs.EventQPLastWQEReached), uint32(machine.EventQPLastWQEReached)},
		"EventGIDChange":        {uint32(verbs.EventGIDChange), uint32(machine.EventGIDChange)},

		"Port": {verbs.Port, ib.UDPPort}, "MaxReadAtomic": {verbs.MaxReadAtomic, adapter.MaxReadAtomic},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %d, the device's %d", name, c[0], c[1])
		}
	}
	if queue.Statuses != queue.Status(verbs.GeneralErr)+1 {
		t.Errorf("the device has %d statuses, the last of this package is %d", queue.Statuses, verbs.GeneralErr)
	}
}

func TestNumbersHaveNames(t *testing.T) {
	for _, c := range []struct {
		found interface{ String() string }
		want  string
	}{
		{verbs.RC, "RC"}, {verbs.XRCRecv, "XRC_RECV"}, {verbs.QPType(8), "queue pair type 8"},
		{verbs.Reset, "RESET"}, {verbs.Err, "ERR"}, {verbs.State(9), "queue pair state 9"},
		{verbs.LocalWrite | verbs.RemoteRead, "LOCAL_WRITE|REMOTE_READ"}, {verbs.Access(0), "none"}, {verbs.RemoteWrite | 1<<20, "REMOTE_WRITE|0x100000"},
		{verbs.OpWriteImm, "IBV_WR_RDMA_WRITE_WITH_IMM"}, {verbs.Op(99), "operation 99"},
		{verbs.WCRecvRDMAImm, "IBV_WC_RECV_RDMA_WITH_IMM"}, {verbs.WCOp(99), "completed operation 99"},
		{verbs.RetryExcErr, "IBV_WC_RETRY_EXC_ERR"}, {verbs.Status(99), "status 99"},
	} {
		if got := c.found.String(); got != c.want {
			t.Errorf("found %q, expected %q", got, c.want)
		}
	}
}
