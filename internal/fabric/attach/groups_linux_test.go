package attach

import (
	"runtime"
	"testing"
	"time"
)

// What the fabric hears of a group last is whether the program is in it, also if the port joins its groups
// again meanwhile.
func TestFabricHearsOfGroupsInOrder(t *testing.T) {
	c, fabric, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer fabric.Close()
	_ = fabric.SetDeadline(time.Now().Add(30 * time.Second))
	p := &Port{conn: c}
	var groups [16][16]byte
	for i := range groups {
		groups[i] = [16]byte{0xff, byte(i)}
	}
	for range 200 {
		for _, g := range groups {
			p.SetGroup(g, true)
		}
		done := make(chan struct{})
		go func() {
			p.joinAgain(c)
			close(done)
		}()
		runtime.Gosched()
		for _, g := range groups {
			p.SetGroup(g, false)
		}
		<-done
		if err := c.Send([]byte{byte(SetSM)}); err != nil { // behind what was said
			t.Fatal(err)
		}
		members := make(map[[16]byte]bool)
		for {
			b, _, err := fabric.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if Kind(b[0]) == SetSM {
				break
			}
			var m Membership
			on, err := m.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			members[m.MGID] = on
		}
		for g, on := range members {
			if on {
				t.Fatalf("a member of group %x, which the program has left", g)
			}
		}
	}
}
