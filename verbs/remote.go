package verbs

import (
	"encoding/binary"

	"softrdma/internal/reason"
)

// A RemoteMemory describes memory of a peer for WRITE, READ and atomics. Programs send it to
// the peer that will use it, often in the private data of a connection. Its binary form is
// that of many programs in C, such as rping: address, key and length, each in network byte
// order.
type RemoteMemory struct {
	Addr   uint64 // SendWR.RemoteAddr of the first byte
	RKey   uint32 // SendWR.RKey
	Length uint32 // bytes; the maximum for a region of more than 4 GiB
}

// RemoteMemoryLen is the length of the binary form of a RemoteMemory, in bytes.
const RemoteMemoryLen = 16

// Remote describes the whole region for peers.
func (m *MR) Remote() RemoteMemory {
	r := m.region()
	return RemoteMemory{r.Base, r.Key, uint32(min(r.Len, 1<<32-1))}
}

// AppendBinary appends the binary form to b. The error is always nil.
func (m RemoteMemory) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, m.Addr)
	b = binary.BigEndian.AppendUint32(b, m.RKey)
	return binary.BigEndian.AppendUint32(b, m.Length), nil
}

// MarshalBinary returns the binary form. The error is always nil.
func (m RemoteMemory) MarshalBinary() ([]byte, error) {
	return m.AppendBinary(make([]byte, 0, RemoteMemoryLen))
}

// UnmarshalBinary sets m to the memory whose binary form is at the start of b.
func (m *RemoteMemory) UnmarshalBinary(b []byte) (err error) {
	*m, err = ParseRemoteMemory(b)
	return err
}

// ParseRemoteMemory returns the memory whose binary form is at the start of b. It ignores the
// rest, because private data is padded with zeros.
func ParseRemoteMemory(b []byte) (RemoteMemory, error) {
	if len(b) < RemoteMemoryLen {
		return RemoteMemory{}, reason.BadArgument(0, uint64(len(b)), "remote memory: expected %d bytes, found %d", RemoteMemoryLen, len(b))
	}
	return RemoteMemory{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}, nil
}
