package rsocket

// A Life tracks which directions of a connection are open. In the zero value both
// are open.
type Life struct {
	noRead  bool // the peer sends no more data, or this side reads no more
	noWrite bool
	gone    bool // neither side sends messages any more
	ended   bool // the peer has sent SHUTDOWN or DISCONNECT
	left    bool // the peer has sent DISCONNECT
}

// Readable reports whether data may still come.
func (l *Life) Readable() bool { return !l.noRead && !l.gone }

// Writable reports whether data may be sent.
func (l *Life) Writable() bool { return !l.noWrite && !l.gone }

// Gone reports whether the connection is over.
func (l *Life) Gone() bool { return l.gone }

// Ended reports whether the peer has said that it sends no more data. If the
// connection is over and Ended is false, the connection was cut: rclose and
// rshutdown of librdmacm send a message before they disconnect, and a killed
// process does not.
func (l *Life) Ended() bool { return l.ended }

// Left reports whether the peer has closed both directions.
func (l *Life) Left() bool { return l.left }

// End ends the connection.
func (l *Life) End() { l.gone = true }

// Control handles an OpControl message of the peer.
func (l *Life) Control(data uint32) {
	switch data {
	case ControlDisconnect:
		l.gone, l.ended, l.left = true, true, true
	case ControlShutdown:
		l.noRead, l.ended = true, true
		// If this side has closed its direction too, the connection is over.
		l.gone = l.gone || l.noWrite
	}
	// Other messages, such as keep-alives, are ignored as in rsockets.
}

// CloseWrite closes this side's direction. It returns the control message for the
// peer and whether to send it. After a SHUTDOWN the peer may still send data, which
// this side reads.
func (l *Life) CloseWrite() (m Message, send bool) {
	if l.noWrite || l.gone {
		return 0, false
	}
	l.noWrite = true
	if l.noRead {
		return NewMessage(OpControl, ControlDisconnect), true
	}
	return NewMessage(OpControl, ControlShutdown), true
}

// CloseRead ends reading. The peer gets a message only if that ends the connection,
// because the protocol has none for this direction alone.
func (l *Life) CloseRead() (m Message, send bool) {
	if l.noRead || l.gone {
		return 0, false
	}
	l.noRead = true
	return NewMessage(OpControl, ControlDisconnect), l.noWrite
}

// Close closes both directions.
func (l *Life) Close() (m Message, send bool) {
	send = !l.gone && !(l.noRead && l.noWrite)
	l.noRead, l.noWrite = true, true
	return NewMessage(OpControl, ControlDisconnect), send
}
