package rsocket

import "testing"

func TestMessageFieldsLieWhereRsocketsPutsThem(t *testing.T) {
	for _, c := range []struct {
		m    Message
		wire uint32
		text string
	}{
		{NewMessage(OpData, 65536), 0x00010000, "DATA of 65536 bytes"},
		{NewMessage(OpCredits, 384), 0x80000180, "SGL: credit up to 384"},
		{NewMessage(OpIomap, 3), 0xc0000003, "IOMAP_SGL: entry 3"},
		{NewMessage(OpControl, ControlDisconnect), 0xe0000000, "CTRL: DISCONNECT"},
		{NewMessage(OpControl, ControlKeepAlive), 0xe0000001, "CTRL: KEEPALIVE"},
		{NewMessage(OpControl, ControlShutdown), 0xe0000002, "CTRL: SHUTDOWN"},
		{NewMessage(OpControl, 4), 0xe0000004, "reserved message 0xe0000004"},
		{NewMessage(1, 5), 0x20000005, "reserved message 0x20000005"},
	} {
		if uint32(c.m) != c.wire || c.m.String() != c.text {
			t.Errorf("expected %#x, %q, found %#x, %q", c.wire, c.text, uint32(c.m), c.m)
		}
		if NewMessage(c.m.Op(), c.m.Data()) != c.m {
			t.Errorf("%v does not come back", c.m)
		}
	}
}
