package message

import (
	"encoding/binary"
	"fmt"
)

// A batch is a frame with several short eager messages that waited together for credits. It
// saves the cost per frame in the connection, the queue pair and the network. Each message
// uses a credit and is matched as if it had come in a separate frame. Each begins with
//
//	tag (8 bytes) | number (4) | flags (1) | 0 (1) | length (2)
const (
	entryLen = 16
	maxEntry = 1024 // bytes of a message in a batch; copying longer ones costs more than a frame
)

// room returns the length of the longest frame after the header, for a worker with a
// configuration.
func (c *Config) room() int { return c.FrameLen() - HeaderLen }

// sendBatch sends the first messages of a queue in one frame. It returns how many: 0 if fewer
// than two can be batched.
func (w *Worker) sendBatch(p *Peer, queue []*Send) int {
	n, size := 0, 0
	for n < min(len(queue), p.credits) {
		s := queue[n]
		if size += entryLen + s.Length; s.Length > min(maxEntry, p.config.Eager) || size > p.config.room() {
			break
		}
		n++
	}
	if n < 2 {
		return 0
	}
	w.parts, w.tail = w.parts[:0], w.tail[:0]
	for _, s := range queue[:n] {
		at := len(w.tail)
		w.tail = appendEntry(w.tail, s, p.number)
		w.parts = append(append(w.parts, w.tail[at:]), s.Data...)
		if s.Sync {
			s.offered, s.writing = false, false
			p.await(s)
		}
	}
	p.credits -= n
	w.out = Header{kind: kindBatch, length: uint64(n)}
	w.transmit(p, &w.out, w.parts)
	clear(w.parts)
	for _, s := range queue[:n] {
		if !s.Sync {
			w.env.Sent(s, nil)
		}
	}
	return n
}

// appendEntry appends the header of a message in a batch.
func appendEntry(b []byte, s *Send, number uint32) []byte {
	flags := byte(0)
	if s.Sync {
		flags = flagSync
	}
	b = binary.BigEndian.AppendUint64(b, s.Tag)
	b = binary.BigEndian.AppendUint32(b, number)
	return binary.BigEndian.AppendUint16(append(b, flags, 0), uint16(s.Length))
}

// takeBatch handles the messages of a batch. It reuses the frame's header for each of them.
func (w *Worker) takeBatch(p *Peer, h *Header, payload []byte) error {
	n := h.length
	for ; n > 0 && len(payload) >= entryLen; n-- {
		be := binary.BigEndian
		length := int(be.Uint16(payload[14:]))
		*h = Header{kind: kindEager, tag: be.Uint64(payload), number: be.Uint32(payload[8:]), flags: payload[12], length: uint64(length)}
		if rest := len(payload) - entryLen; length > rest || h.flags&^flagSync != 0 || payload[13] != 0 {
			return fmt.Errorf("%w: message of %d bytes with flags %#x in %d bytes of a batch", ErrFrame, length, h.flags, rest)
		}
		if err := w.takeEager(p, h, payload[entryLen:][:length]); err != nil {
			return err
		}
		payload = payload[entryLen+length:]
	}
	if n > 0 || len(payload) > 0 {
		return fmt.Errorf("%w: batch with %d more messages in %d bytes", ErrFrame, n, len(payload))
	}
	w.refill(p)
	return nil
}
