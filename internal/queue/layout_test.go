package queue

import (
	"testing"
	"unsafe"

	"softrdma/internal/memory"
)

// The numbers were printed by a C program from Linux's rdma/rdma_user_rxe.h,
// rdma/siw-abi.h and rdma/ib_user_verbs.h with sizeof and offsetof.
func TestLayoutIsThatOfTheDriver(t *testing.T) {
	var (
		w  SendWQE
		r  RecvWQE
		av AV
		s  memory.SGE
		h  header
		c  CQE
		u  UD
		a  Atomic
		fl FlushTarget
		rd RDMA
		m  MW
		sq SIWSQE
		rq SIWRQE
		cq SIWCQE
	)
	const wr = 24 // offset of the union in rxe_send_wqe
	for name, x := range map[string][2]uintptr{
		"rxe_send_wqe":                          {unsafe.Sizeof(w), 208},
		"rxe_send_wqe.wr.wr_id":                 {unsafe.Offsetof(w.WRID), 0},
		"rxe_send_wqe.wr.opcode":                {unsafe.Offsetof(w.Op), 12},
		"rxe_send_wqe.wr.send_flags":            {unsafe.Offsetof(w.Flags), 16},
		"rxe_send_wqe.wr.ex":                    {unsafe.Offsetof(w.ImmInv), 20},
		"rxe_send_wqe.wr.wr":                    {unsafe.Offsetof(w.u), wr},
		"rxe_send_wqe.dma.length":               {unsafe.Offsetof(w.Length), 184},
		"rxe_send_wqe.dma.num_sge":              {unsafe.Offsetof(w.NumSGE), 196},
		"rxe_send_wqe.dma.sge":                  {uintptr(SendWQELen), 208},
		"rxe_send_wqe.wr.wr.rdma.remote_addr":   {wr + unsafe.Offsetof(rd.Addr), 24},
		"rxe_send_wqe.wr.wr.rdma.rkey":          {wr + unsafe.Offsetof(rd.RKey), 32},
		"rxe_send_wqe.wr.wr.flush.remote_addr":  {wr + unsafe.Offsetof(fl.Addr), 24},
		"rxe_send_wqe.wr.wr.flush.rkey":         {wr + unsafe.Offsetof(fl.RKey), 36},
		"rxe_send_wqe.wr.wr.flush.type":         {wr + unsafe.Offsetof(fl.Placement), 40},
		"rxe_send_wqe.wr.wr.flush.level":        {wr + unsafe.Offsetof(fl.Selectivity), 41},
		"rxe_send_wqe.wr.wr.atomic.addr":        {wr + unsafe.Offsetof(a.Addr), 24},
		"rxe_send_wqe.wr.wr.atomic.compare":     {wr + unsafe.Offsetof(a.CompareAdd), 32},
		"rxe_send_wqe.wr.wr.atomic.swap":        {wr + unsafe.Offsetof(a.Swap), 40},
		"rxe_send_wqe.wr.wr.atomic.rkey":        {wr + unsafe.Offsetof(a.RKey), 48},
		"rxe_send_wqe.wr.wr.ud.remote_qpn":      {wr + unsafe.Offsetof(u.RemoteQPN), 24},
		"rxe_send_wqe.wr.wr.ud.remote_qkey":     {wr + unsafe.Offsetof(u.RemoteQKey), 28},
		"rxe_send_wqe.wr.wr.ud.pkey_index":      {wr + unsafe.Offsetof(u.PKeyIndex), 32},
		"rxe_send_wqe.wr.wr.ud.ah_num":          {wr + unsafe.Offsetof(u.AHNum), 36},
		"rxe_send_wqe.wr.wr.ud.av":              {wr + unsafe.Offsetof(u.AV), 56},
		"rxe_send_wqe.wr.wr.mw.addr":            {wr + unsafe.Offsetof(m.Addr), 24},
		"rxe_send_wqe.wr.wr.mw.length":          {wr + unsafe.Offsetof(m.Length), 32},
		"rxe_send_wqe.wr.wr.mw.mr_lkey":         {wr + unsafe.Offsetof(m.MRLKey), 40},
		"rxe_send_wqe.wr.wr.mw.mw_rkey":         {wr + unsafe.Offsetof(m.MWRKey), 44},
		"rxe_send_wqe.wr.wr.mw.rkey":            {wr + unsafe.Offsetof(m.RKey), 48},
		"rxe_send_wqe.wr.wr.mw.access":          {wr + unsafe.Offsetof(m.Access), 52},
		"the union's end (rxe_send_wqe.status)": {wr + unsafe.Sizeof(w.u), 144},
		"rxe_recv_wqe":                          {unsafe.Sizeof(r), 40},
		"rxe_recv_wqe.wr_id":                    {unsafe.Offsetof(r.WRID), 0},
		"rxe_recv_wqe.dma.length":               {unsafe.Offsetof(r.Length), 16},
		"rxe_recv_wqe.dma.num_sge":              {unsafe.Offsetof(r.NumSGE), 28},
		"rxe_recv_wqe.dma.sge":                  {uintptr(RecvWQELen), 40},
		"rxe_av":                                {unsafe.Sizeof(av), 88},
		"rxe_av.port_num":                       {unsafe.Offsetof(av.PortNum), 0},
		"rxe_av.network_type":                   {unsafe.Offsetof(av.NetworkType), 1},
		"rxe_av.dmac":                           {unsafe.Offsetof(av.DMAC), 2},
		"rxe_av.grh.dgid":                       {unsafe.Offsetof(av.DGID), 8},
		"rxe_av.grh.flow_label":                 {unsafe.Offsetof(av.FlowLabel), 24},
		"rxe_av.grh.sgid_index":                 {unsafe.Offsetof(av.SGIDIndex), 28},
		"rxe_av.grh.hop_limit":                  {unsafe.Offsetof(av.HopLimit), 29},
		"rxe_av.grh.traffic_class":              {unsafe.Offsetof(av.TrafficClass), 30},
		"rxe_av.sgid_addr":                      {unsafe.Offsetof(av.SGIDAddr), 32},
		"rxe_av.dgid_addr":                      {unsafe.Offsetof(av.DGIDAddr), 60},
		"rxe_sge":                               {unsafe.Sizeof(s), 16},
		"rxe_sge.addr":                          {unsafe.Offsetof(s.Addr), 0},
		"rxe_sge.length":                        {unsafe.Offsetof(s.Length), 8},
		"rxe_sge.lkey":                          {unsafe.Offsetof(s.LKey), 12},
		"rxe_queue_buf":                         {unsafe.Sizeof(h), 384},
		"rxe_queue_buf.log2_elem_size":          {unsafe.Offsetof(h.log2ElemSize), 0},
		"rxe_queue_buf.index_mask":              {unsafe.Offsetof(h.indexMask), 4},
		"rxe_queue_buf.producer_index":          {unsafe.Offsetof(h.producer), 128},
		"rxe_queue_buf.consumer_index":          {unsafe.Offsetof(h.consumer), 256},
		"ib_uverbs_wc.wr_id":                    {unsafe.Offsetof(c.WRID), 0},
		"ib_uverbs_wc.status":                   {unsafe.Offsetof(c.Status), 8},
		"ib_uverbs_wc.opcode":                   {unsafe.Offsetof(c.Op), 12},
		"ib_uverbs_wc.vendor_err":               {unsafe.Offsetof(c.Reason), 16},
		"ib_uverbs_wc.byte_len":                 {unsafe.Offsetof(c.ByteLen), 20},
		"ib_uverbs_wc.ex":                       {unsafe.Offsetof(c.ImmInv), 24},
		"ib_uverbs_wc.qp_num":                   {unsafe.Offsetof(c.QPN), 28},
		"ib_uverbs_wc.src_qp":                   {unsafe.Offsetof(c.SrcQPN), 32},
		"ib_uverbs_wc.wc_flags":                 {unsafe.Offsetof(c.Flags), 36},
		"ib_uverbs_wc.pkey_index":               {unsafe.Offsetof(c.PKeyIndex), 40},
		"ib_uverbs_wc.slid":                     {unsafe.Offsetof(c.SLID), 42},
		"ib_uverbs_wc.sl":                       {unsafe.Offsetof(c.SL), 44},
		"ib_uverbs_wc.dlid_path_bits":           {unsafe.Offsetof(c.DLIDPath), 45},
		"ib_uverbs_wc.port_num":                 {unsafe.Offsetof(c.PortNum), 46},
		"ib_uverbs_wc.reserved":                 {unsafe.Offsetof(c.Solicited), 47},
		"ib_uverbs_wc's end":                    {unsafe.Offsetof(c.Expected), 48},
		"a slot of the completion ring":         {uintptr(CQELen), 64},
		"siw_sqe":                               {unsafe.Sizeof(sq), 120},
		"siw_sqe.flags":                         {unsafe.Offsetof(sq.siwHead), 8},
		"siw_sqe.rkey":                          {unsafe.Offsetof(sq.RKey), 12},
		"siw_sqe.raddr":                         {unsafe.Offsetof(sq.RAddr), 16},
		"siw_sqe.sge":                           {unsafe.Offsetof(sq.SGE), 24},
		"siw_rqe":                               {unsafe.Sizeof(rq), 112},
		"siw_rqe.flags":                         {unsafe.Offsetof(rq.siwHead), 8},
		"siw_rqe.sge":                           {unsafe.Offsetof(rq.SGE), 16},
		"siw_cqe":                               {unsafe.Sizeof(cq), 32},
		"siw_cqe.flags":                         {unsafe.Offsetof(cq.siwDone), 8},
		"siw_cqe.bytes":                         {unsafe.Offsetof(cq.Bytes), 12},
		"siw_cqe.imm_data":                      {unsafe.Offsetof(cq.ImmInv), 16},
		"siw_cqe.qp_id":                         {unsafe.Offsetof(cq.QPN), 24},
		"siw_cq_ctrl":                           {unsafe.Sizeof(siwControl{}), 8},
		"SIW_MAX_INLINE":                        {uintptr(SIWMaxInline), 80},
	} {
		if x[0] != x[1] {
			t.Errorf("%s: found %d, want %d", name, x[0], x[1])
		}
	}
}

func TestViewsFitIntoUnion(t *testing.T) {
	var w SendWQE
	for name, n := range map[string]uintptr{
		"RDMA": unsafe.Sizeof(RDMA{}), "Atomic": unsafe.Sizeof(Atomic{}), "UD": unsafe.Sizeof(UD{}), "MW": unsafe.Sizeof(MW{}),
	} {
		if n > unsafe.Sizeof(w.u) {
			t.Errorf("%s has %d bytes, the union %d", name, n, unsafe.Sizeof(w.u))
		}
	}
	w.UD().AV.DGIDAddr[27] = 0xee
	w.Length, w.NumSGE = 1, 2
	if w.UD().AV.DGIDAddr[27] != 0xee || w.Length != 1 || w.NumSGE != 2 {
		t.Error("the union's end overlaps what follows")
	}
}

func TestHeaderHasItsSizeForTheDriver(t *testing.T) {
	r := NewSendRing(100, 4, 0) // 208+64 bytes, so 512
	third := uintptr(unsafe.Pointer(r.At(3)))
	h := r.h.Load()
	if h.log2ElemSize != 9 || h.indexMask != 127 {
		t.Errorf("log2 %d, mask %d", h.log2ElemSize, h.indexMask)
	}
	if got := third - uintptr(unsafe.Pointer(h)); got != 384+3*512 {
		t.Errorf("slot 3 is at %d", got)
	}
	c := NewCompletionRing(1)
	c.At(0) // takes memory
	if n := c.h.Load().log2ElemSize; n != 6 {
		t.Errorf("completions take %d bytes", 1<<n)
	}
}
