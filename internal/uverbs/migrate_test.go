//go:build linux

package uverbs

import (
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"softrdma/internal/wire/uapi"
)

// One thread takes events of a file while another one moves the id that the events
// concern. The program gets the number of events that it took, and acknowledges all.
func TestMigrateCountsEventsThatAreTakenMeanwhile(t *testing.T) {
	at := netip.MustParseAddr("127.14.8.2")
	s := newServer(t, at.String())
	a, b := newTestClient(t, s), newTestClient(t, s)
	from, to := cmFile{a.open("rdma_cm")}, cmFile{b.open("rdma_cm")}
	usedA, usedB := a.used, b.used
	taken := make(chan syscall.Errno, 1)
	var taking sync.WaitGroup
	defer taking.Wait() // before the program's memory is unmapped, also if the test fails
	for range 200 {
		a.used, b.used = usedA, usedB
		id := from.id(0x106)
		q := uapi.CMResolveAddrCmd{ID: id, TimeoutMS: 1000, DstSize: 16}
		uapi.PutAddr(q.Dst[:], netip.AddrPortFrom(at, 7))
		from.must(uapi.CMResolveAddr, uapi.Bytes(&q), 0, 0)
		taking.Go(func() {
			no := syscall.EIO
			defer func() { taken <- no }() // also if the call ends this goroutine
			no, _ = from.do(uapi.CMGetEvent, uapi.Bytes(&uapi.Response{}), 0, uapi.Size[uapi.CMEvent]())
		})
		told, _ := uapi.Parse[uapi.DestroyResp](to.must(uapi.CMMigrateID, uapi.Bytes(&uapi.CMByID{ID: id, Arg: uint32(from.fd)}), 0, uapi.Size[uapi.DestroyResp]()))
		want := uint32(1)
		switch no := <-taken; no {
		case 0:
		case syscall.EAGAIN:
			to.event(cmAddrResolved)
			want = 0
		default:
			t.Fatal(no)
		}
		if told.EventsReported != want {
			t.Fatalf("reported %d events, %d were taken", told.EventsReported, want)
		}
		end, _ := uapi.Parse[uapi.DestroyResp](to.must(uapi.CMDestroyID, uapi.Bytes(&uapi.CMByID{ID: id}), 0, uapi.Size[uapi.DestroyResp]()))
		if end.EventsReported != 1 {
			t.Fatalf("reported %d events at the end", end.EventsReported)
		}
	}
}
