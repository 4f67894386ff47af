package ucx

import "math/big"

// UcpWorkerParams are the parameters of a worker.
type UcpWorkerParams struct {
	mode      UcsThreadMode
	hasMode   bool
	eventFD   uintptr
	hasFD     bool
	alignment uint64
	clientID  uint64
}

// SetThreadMode sets the thread mode, which UcpWorker.Query returns. Without it, that is
// UCS_THREAD_MODE_MULTI. Every mode allows calls from any goroutine.
func (p *UcpWorkerParams) SetThreadMode(threadMode UcsThreadMode) *UcpWorkerParams {
	p.mode, p.hasMode = threadMode, true
	return p
}

// SetCpuMask says on which processors the worker's resources should be. It is a hint, and has no
// effect.
func (p *UcpWorkerParams) SetCpuMask(mask *big.Int) *UcpWorkerParams { return p }

// SetWakeupEvent adds events that wake the worker. It has no effect: all events do.
func (p *UcpWorkerParams) SetWakeupEvent(event UcpWakeupEvent) *UcpWorkerParams { return p }

// WakeupRMA is SetWakeupEvent(UCP_WAKEUP_RMA).
func (p *UcpWorkerParams) WakeupRMA() *UcpWorkerParams { return p.SetWakeupEvent(UCP_WAKEUP_RMA) }

// WakeupAMO is SetWakeupEvent(UCP_WAKEUP_AMO).
func (p *UcpWorkerParams) WakeupAMO() *UcpWorkerParams { return p.SetWakeupEvent(UCP_WAKEUP_AMO) }

// WakeupTagSend is SetWakeupEvent(UCP_WAKEUP_TAG_SEND).
func (p *UcpWorkerParams) WakeupTagSend() *UcpWorkerParams {
	return p.SetWakeupEvent(UCP_WAKEUP_TAG_SEND)
}

// WakeupTagRecv is SetWakeupEvent(UCP_WAKEUP_TAG_RECV).
func (p *UcpWorkerParams) WakeupTagRecv() *UcpWorkerParams {
	return p.SetWakeupEvent(UCP_WAKEUP_TAG_RECV)
}

// WakeupTX is SetWakeupEvent(UCP_WAKEUP_TX).
func (p *UcpWorkerParams) WakeupTX() *UcpWorkerParams { return p.SetWakeupEvent(UCP_WAKEUP_TX) }

// WakeupRX is SetWakeupEvent(UCP_WAKEUP_RX).
func (p *UcpWorkerParams) WakeupRX() *UcpWorkerParams { return p.SetWakeupEvent(UCP_WAKEUP_RX) }

// WakeupEdge is SetWakeupEvent(UCP_WAKEUP_EDGE).
func (p *UcpWorkerParams) WakeupEdge() *UcpWorkerParams { return p.SetWakeupEvent(UCP_WAKEUP_EDGE) }

// SetUserData attaches data to the worker. It has no effect.
func (p *UcpWorkerParams) SetUserData(data []byte) *UcpWorkerParams { return p }

// SetEventFD sets the descriptor of an epoll instance that reports the worker's events, instead of
// UcpWorker.GetEfd. It works on Linux; UcpContext.NewWorker refuses it elsewhere.
func (p *UcpWorkerParams) SetEventFD(fd uintptr) *UcpWorkerParams {
	p.eventFD, p.hasFD = fd, true
	return p
}

// SetName names the worker for tools. It has no effect.
func (p *UcpWorkerParams) SetName(name string) *UcpWorkerParams { return p }

// SetAmAlignment sets the alignment in bytes of the data that handlers of active messages get, a
// power of two. Data that arrived elsewhere is copied.
func (p *UcpWorkerParams) SetAmAlignment(alignment uint64) *UcpWorkerParams {
	p.alignment = alignment
	return p
}

// SetClientId sets the number that endpoints with UcpEpParams.SendClientId send to the listener:
// see UcpConnectionRequest.Query.
func (p *UcpWorkerParams) SetClientId(clientId uint64) *UcpWorkerParams {
	p.clientID = clientId
	return p
}
