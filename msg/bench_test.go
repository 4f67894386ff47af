package msg_test

import (
	"testing"

	"softrdma/msg"
	"softrdma/verbs"
)

// BenchmarkMessages measures 8-byte messages in one direction between two workers that are
// polled in turn: the cost of both ends on one processor.
func BenchmarkMessages(b *testing.B) {
	var w [2]*msg.Worker
	for i := range w {
		dev, err := verbs.Open(devices["RoCE"][i], verbs.Config{})
		if err != nil {
			b.Fatal(err)
		}
		defer dev.Close()
		if w[i], err = msg.NewWorker(dev, msg.Config{Progress: msg.ProgressCaller}); err != nil {
			b.Fatal(err)
		}
		defer w[i].Close()
	}
	e := connect(b, w[0], w[1])
	ctx := within(b)
	const batch = 32
	var sends, receives [batch]*msg.Request
	data, buf := make([]byte, 8), make([]byte, 8)
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch {
			receives[i] = w[1].Receive(buf, 1, msg.All)
		}
		for i := range batch {
			sends[i] = e.Send(1, data)
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
