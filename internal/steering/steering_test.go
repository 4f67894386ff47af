package steering

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"

	"softrdma/internal/reason"
)

// Each queue pair number belongs to one device of an endpoint, and to the lane that the
// kernel's packet filter steers its packets to.
func TestSharesDivideTheNumbers(t *testing.T) {
	const of = 16
	shares := []Share{{0, 3, of}, {3, 1, of}, {4, 12, of}}
	vm, err := bpf.NewVM(append(LoadLane(0, of), bpf.RetA{}))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		qpn := uint32(i)
		if i > 300 {
			qpn = r.Uint32N(1 << 24)
		}
		packet := binary.BigEndian.AppendUint32(make([]byte, 4), qpn)
		steered, err := vm.Run(append(packet, 0, 0, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		owners := 0
		for _, s := range shares {
			if lane, ok := s.Lane(qpn); ok {
				owners++
				if lane+s.First != steered {
					t.Errorf("%#x: lane %d of %+v, steered to %d", qpn, lane, s, steered)
				}
			}
		}
		if owners != 1 {
			t.Errorf("%#x belongs to %d devices", qpn, owners)
		}
	}
	for qpn := range uint32(2) { // IBTA 3.5.1: management
		if lane, ok := shares[0].Lane(qpn); !ok || lane != 0 {
			t.Errorf("queue pair %d is on lane %d, %v", qpn, lane, ok)
		}
	}
}

func TestShareDrawsFreeNumbersOfItsLane(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range []Share{Whole(1), Whole(3), {First: 7, Lanes: 2, Of: 256}, {First: 255, Lanes: 1, Of: 256}} {
		used := map[uint32]bool{}
		for i := range 2000 {
			lane := i % s.Lanes
			n, err := s.Draw(lane, len(used), func(n uint32) bool { return !used[n] }, r.Uint32)
			got, ok := s.Lane(n)
			if err != nil || !ok || got != lane || n <= 0xff || n >= 0xffffff || used[n] {
				t.Fatalf("%+v: %#x for lane %d, error %v", s, n, lane, err)
			}
			used[n] = true
		}
	}
}

func TestShareRefusesBeyondItsNumbers(t *testing.T) {
	s := Share{First: 7, Lanes: 1, Of: 256}
	free := func(uint32) bool { return true }
	if _, err := s.Draw(0, 61439, free, func() uint32 { return 0x12345678 }); err != nil {
		t.Error(err)
	}
	var why *reason.Error
	if _, err := s.Draw(0, 61440, free, func() uint32 { return 0x12345678 }); !errors.As(err, &why) || why.Detail.Reason != reason.QPNumbers {
		t.Errorf("%v, expected QP_NUMBERS", err)
	}
}
