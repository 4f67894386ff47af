package msg_test

import (
	"testing"

	"softrdma/msg"
	"softrdma/verbs"
)

// BenchmarkMessages measures 8-byte messages in one direction between two workers that are
// polled in turn: the cost of both ends on one processor.
func BenchmarkMessages(b *testing.B) {
	w := polled(b)
	e := connect(b, w[0], w[1])
	ctx := within(b)
	const batch = 32
	var sends, receives [batch]*msg.Request
	data, buf := make([]byte, 8), make([]byte, 8)
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch {
			receives[i] = w[1].Receive(msg.Buffers{buf}, 1, msg.All)
		}
		for i := range batch {
			sends[i] = e.Send(1, msg.Buffers{data}, nil)
		}
		for i := range batch {
			for ended := false; !ended; {
				w[0].Progress()
				_, ended, _ = receives[i].Poll()
			}
			receives[i].Release()
			if _, err := sends[i].Wait(ctx); err != nil {
				b.Fatal(err)
			}
			sends[i].Release()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/message")
}

// polled returns two workers whose program makes progress.
func polled(b *testing.B) (w [2]*msg.Worker) {
	for i := range w {
		dev, err := verbs.Open(paths[0].devices[i], verbs.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = dev.Close() })
		if w[i], err = msg.NewWorker(dev, msg.Config{Progress: msg.ProgressCaller}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = w[i].Close() })
	}
	return w
}

// BenchmarkAnswers measures 8-byte messages and their answers between two workers that are polled
// in turn: tagged and active messages.
func BenchmarkAnswers(b *testing.B) {
	data, buf := make([]byte, 8), make([]byte, 8)
	b.Run("Tagged", func(b *testing.B) {
		w := polled(b)
		e := [2]*msg.Endpoint{connect(b, w[0], w[1]), connect(b, w[1], w[0])}
		b.ReportAllocs()
		for b.Loop() {
			for i := range w {
				r := w[1-i].Receive(msg.Buffers{buf}, 1, msg.All)
				e[i].Send(1, msg.Buffers{data}, nil).Release()
				for ended := false; !ended; {
					w[i].Progress()
					_, ended, _ = r.Poll()
				}
				r.Release()
			}
		}
	})
	b.Run("Active", func(b *testing.B) {
		w := polled(b)
		e := connect(b, w[0], w[1])
		answers := 0
		w[1].Handle(1, func(m *msg.Active) { m.From.SendActive(1, nil, msg.Buffers{m.Data}, nil).Release() })
		w[0].Handle(1, func(*msg.Active) { answers++ })
		b.ReportAllocs()
		for b.Loop() {
			e.SendActive(1, nil, msg.Buffers{data}, nil).Release()
			for n := answers; answers == n; {
				w[1].Progress()
				w[0].Progress()
			}
		}
	})
}
