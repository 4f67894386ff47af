package ucx

import (
	"net"
	"net/netip"
)

// UcpEpParams are the parameters of an endpoint. One of SetUcpAddress, SetSocketAddress and
// SetConnRequest says what it connects to.
type UcpEpParams struct {
	address  []byte
	socket   string
	request  *UcpConnectionRequest
	handler  UcpEpErrHandler
	clientID bool
}

// A UcpEpErrHandler is called once if an endpoint fails. All operations of the endpoint end with
// errors then. Statuses are UCS_ERR_CONNECTION_RESET if the peer closed its end,
// UCS_ERR_ENDPOINT_TIMEOUT if it does not answer, and UCS_ERR_REJECTED if it rejected the connection.
type UcpEpErrHandler func(ep *UcpEp, status UcsStatus)

// SetUcpAddress connects to the worker with an address.
func (p *UcpEpParams) SetUcpAddress(a *UcpAddress) *UcpEpParams {
	p.address = append([]byte{}, a.bytes()...)
	return p
}

// SetPeerErrorHandling asks that all requests end if the peer fails, which they always do.
func (p *UcpEpParams) SetPeerErrorHandling() *UcpEpParams { return p }

// SetErrorHandler sets the function to call if the endpoint fails.
func (p *UcpEpParams) SetErrorHandler(errHandler UcpEpErrHandler) *UcpEpParams {
	p.handler = errHandler
	return p
}

// SetName names the endpoint for tools. It has no effect.
func (p *UcpEpParams) SetName(name string) *UcpEpParams { return p }

// SetSocketAddress connects to the listener at an address and port.
func (p *UcpEpParams) SetSocketAddress(a *net.TCPAddr) (*UcpEpParams, error) {
	s, err := socketAddress(a)
	if err != nil {
		return nil, err
	}
	p.socket = s
	return p, nil
}

// SetConnRequest accepts the connection request of a listener.
func (p *UcpEpParams) SetConnRequest(c *UcpConnectionRequest) *UcpEpParams {
	p.request = c
	return p
}

// SendClientId sends UcpWorkerParams.SetClientId's number to the listener.
func (p *UcpEpParams) SendClientId() *UcpEpParams {
	p.clientID = true
	return p
}

// socketAddress returns the text of an address. Nil means any address and port.
func socketAddress(a *net.TCPAddr) (string, error) {
	ip := netip.IPv4Unspecified()
	if a == nil {
		a = &net.TCPAddr{}
	}
	if len(a.IP) > 0 {
		var ok bool
		if ip, ok = netip.AddrFromSlice(a.IP); !ok {
			return "", &net.AddrError{Err: "neither an IPv4 nor an IPv6 address", Addr: a.IP.String()}
		}
		ip = ip.Unmap().WithZone(a.Zone)
	}
	if a.Port < 0 || a.Port > 65535 {
		return "", &net.AddrError{Err: "invalid port", Addr: a.String()}
	}
	return netip.AddrPortFrom(ip, uint16(a.Port)).String(), nil
}
