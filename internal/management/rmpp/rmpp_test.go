package rmpp

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
)

var config = Config{HeaderLen: 20, Timeout: time.Second, Retries: 8, MaxLen: 1 << 20}

func template() (d [mad.Len]byte) {
	h := mad.Header{BaseVersion: 1, Class: mad.ClassAdministration, ClassVersion: 2, Method: mad.MethodGetTableResponse, TID: 77, Attribute: 0x11}
	h.Put(&d)
	for i := 36; i < 56; i++ { // the class's header
		d[i] = byte(i)
	}
	return d
}

func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// transfer carries the packets of a sender and a receiver between them, each of
// which is lost with a chance.
func transfer(t *testing.T, s *Sender, r **Receiver, loss float64, seed uint64) (packets int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var d [mad.Len]byte
	for now := time.Duration(0); ; {
		for s.Next(now, &d) {
			packets++
			if random.Float64() < loss {
				continue
			}
			if *r == nil {
				*r = NewReceiver(&config, now, &d)
			}
			(*r).Receive(now, &d)
			var answer [mad.Len]byte
			for (*r).Next(&answer) {
				if answer[3] != mad.MethodGetTable || answer[15] != 77 {
					t.Fatalf("answer %x", answer[:36])
				}
				if random.Float64() >= loss {
					var h rmpp.Header
					h.Parse(&answer)
					s.Receive(now, &h)
				}
			}
		}
		if _, done := s.Done(); done {
			return packets
		}
		if s.Deadline() == Never {
			t.Fatal("the sender waits for nothing")
		}
		now = s.Deadline()
	}
}

func TestTransfersOfAllLengthsArrive(t *testing.T) {
	for _, n := range []int{0, 1, 199, 200, 201, 400, 200 * 33, 200*Window + 1, 200_000} {
		d := template()
		data := payload(n)
		s := NewSender(&config, &d, data)
		var r *Receiver
		packets := transfer(t, s, &r, 0, 1)
		first, got, complete := r.Data()
		if status, _ := s.Done(); status != 0 || !complete || !bytes.Equal(got, data) || packets != s.Segments() {
			t.Errorf("%d bytes: status %d, %d arrived, complete %v, %d packets", n, status, len(got), complete, packets)
		}
		if !bytes.Equal(first[36:56], d[36:56]) {
			t.Errorf("%d bytes: headers %x", n, first[:56])
		}
	}
}

func TestTransfersSurviveLosses(t *testing.T) {
	for seed := range uint64(50) {
		d := template()
		data := payload(5000 + int(seed))
		s := NewSender(&config, &d, data)
		var r *Receiver
		transfer(t, s, &r, .1, seed)
		_, got, complete := r.Data()
		if status, _ := s.Done(); status != 0 || !complete || !bytes.Equal(got, data) {
			t.Errorf("seed %d: status %d, %d arrived, complete %v", seed, status, len(got), complete)
		}
	}
}

func TestSenderGivesUpWithAnAbort(t *testing.T) {
	d := template()
	s := NewSender(&config, &d, payload(500))
	var h rmpp.Header
	var out [mad.Len]byte
	for now := time.Duration(0); s.Next(now, &out); now = min(s.Deadline(), now+time.Hour) {
		h.Parse(&out)
	}
	if status, done := s.Done(); !done || status != rmpp.StatusRetries || h.Type != rmpp.Abort || h.Status != rmpp.StatusRetries {
		t.Errorf("status %d, %v; the last packet is %+v", status, done, h)
	}
}

// TestSegmentLengths are those of IBTA 13.6.2.3.
func TestSegmentLengths(t *testing.T) {
	d := template()
	s := NewSender(&config, &d, payload(450))
	var h rmpp.Header
	for i, want := range []rmpp.Header{
		{Version: 1, Type: rmpp.Data, RespTime: 31, Flags: rmpp.Active | rmpp.First, Segment: 1, Second: 510},
		{Version: 1, Type: rmpp.Data, RespTime: 31, Flags: rmpp.Active, Segment: 2},
		{Version: 1, Type: rmpp.Data, RespTime: 31, Flags: rmpp.Active | rmpp.Last, Segment: 3, Second: 70},
	} {
		s.segment(uint32(i+1), &d)
		if h.Parse(&d); h != want {
			t.Errorf("segment %d is %+v, expected %+v", i+1, h, want)
		}
	}
}

// data returns a segment as a peer sends it.
func data(change func(*rmpp.Header)) *[mad.Len]byte {
	d := template()
	h := rmpp.Header{Version: 1, Type: rmpp.Data, Flags: rmpp.Active | rmpp.First, Segment: 1}
	change(&h)
	h.Put(&d)
	return &d
}

// A vendor's class has its OUI there, without which an answer belongs to no class.
func TestAnswersHaveTheHeaderOfTheClass(t *testing.T) {
	d := data(func(*rmpp.Header) {})
	header := d[rmpp.At+rmpp.Len:][:config.HeaderLen]
	for i := range header {
		header[i] = byte(i + 1)
	}
	r := NewReceiver(&config, 0, d)
	r.Receive(0, d)
	var answer [mad.Len]byte
	if !r.Next(&answer) {
		t.Fatal("no answer")
	}
	rest := answer[rmpp.At+rmpp.Len:]
	if !bytes.Equal(rest[:config.HeaderLen], header) || !bytes.Equal(rest[config.HeaderLen:], make([]byte, len(rest)-config.HeaderLen)) {
		t.Errorf("behind the RMPP header: %x, expected %x and zeros", rest, header)
	}
}

func TestReceiverAbortsByStatus(t *testing.T) {
	for want, change := range map[rmpp.Status]func(*rmpp.Header){
		rmpp.StatusVersion: func(h *rmpp.Header) { h.Version = 2 },
		rmpp.StatusType:    func(h *rmpp.Header) { h.Type = rmpp.ACK },
		rmpp.StatusIllegal: func(h *rmpp.Header) { h.Status = 5 },
		rmpp.StatusFirst:   func(h *rmpp.Header) { h.Flags = rmpp.Active },
		rmpp.StatusSegment: func(h *rmpp.Header) { h.Segment, h.Flags = 2, rmpp.Active },
		rmpp.StatusLength:  func(h *rmpp.Header) { h.Flags |= rmpp.Last; h.Second = 221 },
	} {
		d := data(change)
		r := NewReceiver(&config, 0, d)
		r.Receive(0, d)
		var out [mad.Len]byte
		var h rmpp.Header
		sent := r.Next(&out)
		h.Parse(&out)
		if status, done := r.Done(); !done || status != want || !sent || h.Type != rmpp.Abort || h.Status != want {
			t.Errorf("status %d, %v, sent %+v; expected %d", status, done, h, want)
		}
	}
}

func TestReceiverStopsWhatIsTooLong(t *testing.T) {
	small := config
	small.MaxLen = 399
	d := template()
	s := NewSender(&small, &d, payload(400))
	r := NewReceiver(&small, 0, &d)
	var out [mad.Len]byte
	var h rmpp.Header
	for n := range uint32(2) {
		s.segment(n+1, &out)
		r.Receive(0, &out)
		r.Next(&out)
		h.Parse(&out)
	}
	if status, done := r.Done(); !done || status != rmpp.StatusResources || h.Type != rmpp.Stop {
		t.Errorf("status %d, %v, sent %+v", status, done, h)
	}
}

func TestReceiverEndsAtItsDeadline(t *testing.T) {
	d := data(func(*rmpp.Header) {})
	r := NewReceiver(&config, 0, d)
	r.Receive(0, d)
	if r.Expire(time.Second - 1) {
		t.Error("over before its deadline")
	}
	var out [mad.Len]byte
	r.Next(&out)
	if !r.Expire(time.Second) || !r.Next(&out) {
		t.Error("not over at its deadline, or without an ABORT")
	}
}

func TestSenderRefusesForgedAcknowledges(t *testing.T) {
	for want, h := range map[rmpp.Status]rmpp.Header{
		rmpp.StatusSegment:     {Version: 1, Type: rmpp.ACK, Segment: 2, Second: 40},
		rmpp.StatusWindowSmall: {Version: 1, Type: rmpp.ACK, Segment: 1},
		rmpp.StatusType:        {Version: 1, Type: rmpp.Data, Segment: 1, Second: 5},
		rmpp.StatusVersion:     {Version: 3, Type: rmpp.ACK, Segment: 1, Second: 5},
		rmpp.StatusIllegal:     {Version: 1, Type: rmpp.ACK, Status: 3, Segment: 1, Second: 5},
	} {
		d := template()
		s := NewSender(&config, &d, payload(1000))
		s.Next(0, &d)
		s.Receive(0, &h)
		sent := s.Next(0, &d)
		if status, done := s.Done(); !done || status != want || !sent {
			t.Errorf("status %d, %v, sent %v; expected %d", status, done, sent, want)
		}
	}
}

func FuzzReceiver(f *testing.F) {
	d := data(func(*rmpp.Header) {})
	f.Add(d[:], uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		var d [mad.Len]byte
		copy(d[:], b)
		r := NewReceiver(&config, 0, &d)
		template := template()
		s := NewSender(&config, &template, payload(2000))
		for now := time.Duration(0); len(b) > 0; now += time.Duration(step) * time.Millisecond {
			b = b[copy(d[rmpp.At:], b):]
			r.Receive(now, &d)
			var h rmpp.Header
			h.Parse(&d)
			s.Receive(now, &h)
			var out [mad.Len]byte
			r.Next(&out)
			s.Next(now, &out)
			if _, data, _ := r.Data(); len(data) > config.MaxLen {
				t.Fatalf("%d bytes are kept", len(data))
			}
		}
	})
}
