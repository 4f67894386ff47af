package rsocket

// A Life is which directions of a connection are open. The zero value is a
// connection with both.
type Life struct {
	noRead  bool // nothing more comes, or nobody wants it
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

// Ended reports whether the peer has said that it sends no more data. A
// connection that is over and has not Ended was cut: rclose and rshutdown of
// librdmacm send a message before they disconnect, a killed process does not.
func (l *Life) Ended() bool { return l.ended }

// Left reports whether the peer has closed both directions: it reads no more.
func (l *Life) Left() bool { return l.left }

// End ends the connection.
func (l *Life) End() { l.gone = true }

// Control takes the peer's OpControl message.
func (l *Life) Control(data uint32) {
	switch data {
	case ControlDisconnect:
		l.gone, l.ended, l.left = true, true, true
	case ControlShutdown:
		l.noRead, l.ended = true, true
		// With this side's own direction closed nothing is left.
		l.gone = l.gone || l.noWrite
	}
	// Others, keep-alives among them, say nothing; rsockets ignore them too.
}

// CloseWrite closes this side's direction. It tells which control message goes
// to the peer: what it sends behind a SHUTDOWN is still read.
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

// CloseRead refuses more data. The peer is told only where that ends the
// connection: there is no message for one direction.
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
