//go:build linux

package uverbs

import (
	"encoding/binary"
	"strings"
	"syscall"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/uapi"
)

// Linux registers regions of no bytes, and those of IBV_ACCESS_ZERO_BASED, whose first
// byte has the address that the command says.
func TestRegionsOfNoBytesAndZeroBased(t *testing.T) {
	s := newServer(t, "127.14.7.2")
	d := newTestClient(t, s).open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](d, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	page := addrOf(d.alloc(8192)) &^ 4095
	page += 4096
	for name, q := range map[string]uapi.RegMR{
		"no bytes":                    {Start: page + 8, HCAVA: page + 8},
		"no bytes at a page's start":  {Start: page, HCAVA: page},
		"no bytes at all":             {},
		"zero-based":                  {Start: page, Length: 64, AccessFlags: uint32(qp.ZeroBased | qp.LocalWrite)},
		"zero-based with its address": {Start: page, HCAVA: page, Length: 64, AccessFlags: uint32(qp.ZeroBased | qp.LocalWrite)},
	} {
		q.PDHandle = pd.Handle
		r, _, _ := do[uapi.RegMRResp](d, uapi.CmdRegMR, uapi.Bytes(&q), 12)
		region := s.devices[0].Adapter.Memory.Lookup(r.RKey)
		if region == nil || region.Base != q.HCAVA || region.Len() != q.Length {
			t.Errorf("%s: found %+v, want %d bytes at %#x", name, region, q.Length, q.HCAVA)
		}
		if q.Length > 0 {
			if why := region.Put(q.HCAVA, []byte("x")); why.Reason != reason.None {
				t.Errorf("%s: %v", name, why)
			}
		}
		if no, _, _ := d.command(uapi.CmdDeregMR, uapi.Bytes(&uapi.HandleOnly{Handle: r.MRHandle}), nil, 0); no != 0 {
			t.Errorf("%s: deregistered with %v", name, no)
		}
	}
}

func TestRefusalTextIsSentOnRequest(t *testing.T) {
	s := newServer(t, "127.14.7.3")
	f := newTestClient(t, s).open("uverbs0")
	h := uapi.CmdHeader{Command: uapi.CmdDeallocPD, InWords: 3}
	b := append(uapi.Bytes(&h), binary.NativeEndian.AppendUint32(nil, 77)...)
	f.send(uapi.Request{Op: uapi.OpWrite, File: f.id, Arg: [4]uint64{0, uint64(len(b))}}, b)
	if len(f.text) != 0 {
		t.Errorf("text %q without a request for it", f.text)
	}
	p, _ := f.send(uapi.Request{Op: uapi.OpWrite | uapi.OpTell, File: f.id, Arg: [4]uint64{0, uint64(len(b))}}, b)
	if p.Result != -int64(syscall.ENOENT) || !strings.Contains(f.text, "COMMAND_HANDLE") || !strings.Contains(f.text, "77") {
		t.Errorf("result %d, text %q", p.Result, f.text)
	}
}

func TestCloseDestroysEverythingBeforeItReturns(t *testing.T) {
	s := newServer(t, "127.14.7.4")
	f := newTestClient(t, s).open("uverbs0")
	newSide(f, 0x1000)
	if p, _ := f.send(uapi.Request{Op: uapi.OpClose, File: f.id}, nil); p.Result != 0 {
		t.Fatal(p.Result)
	}
	if c := s.cfg.Devices[0].Counts(); c.QP+c.CQ+c.MR+c.PD != 0 {
		t.Errorf("left %+v", c)
	}
	if p, _ := f.send(uapi.Request{Op: uapi.OpClose, File: f.id}, nil); p.Result != -int64(syscall.EIO) {
		t.Errorf("a second time: %d", p.Result)
	}
}
