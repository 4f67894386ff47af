package msg_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/msg"
)

func TestWakeupByChannelAndDescriptor(t *testing.T) {
	each(t, msg.Config{Progress: msg.ProgressCaller}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		fd, err := b.Descriptor()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			r := b.Receive(msg.Buffers{make([]byte, 1)}, 1, msg.All)
			for !b.Arm() {
			}
			if _, ended, _ := r.Poll(); ended {
				t.Fatal("ended before the send")
			}
			for !b.Arm() { // Poll may have taken an event
			}
			wait(t, e.Send(1, msg.Buffers{[]byte{byte(i)}}, nil))
			if i == 1 {
				list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				if n, err := unix.Poll(list, 30_000); n != 1 {
					t.Fatalf("descriptor not readable: %v", err)
				}
			}
			select {
			case <-b.Wakeup():
			case <-within(t).Done():
				t.Fatal("no event")
			}
			wait(t, r)
		}
	})
}
