package memory

// A Segment is memory that other processes can map: they may read it once it was offered
// to them.
type Segment struct {
	ID  uint32 // never 0
	Mem []byte
	FD  int
}
