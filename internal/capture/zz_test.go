package capture
import ("testing";"bytes";"time";"math/rand/v2";"softrdma/internal/trace")
func TestZZ(t *testing.T){
	var events []*trace.Event
	for _, p := range everyOpcode() {
		events = append(events, event(trace.Sent, hostA, hostB, 7, p))
	}
	whole:=writeAll(t,events...)
	rr:=rand.New(rand.NewPCG(1,2))
	for k:=0;k<20000;k++{
		f:=bytes.Clone(whole)
		for range 1+rr.IntN(4){ f[rr.IntN(len(f))]=byte(rr.Uint32()) }
		if k%2==0 {f=f[:rr.IntN(len(f))]}
		st:=time.Now()
		done:=make(chan bool)
		go func(){
		r, err := NewReader(bytes.NewReader(f))
		for err == nil { err = r.Next(new(Packet)) }
		close(done)}()
		select{case <-done: case <-time.After(3*time.Second): t.Fatalf("hang %d %x",k,f[:200])}
		if d:=time.Since(st);d>50*time.Millisecond {t.Log(k,d)}
	}
}
