"""Sends messages in a process and in its child, on device files of their own and
on the one that the child has inherited; with "init" behind ibv_fork_init."""
import ctypes
import os
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR


class End:
    def __init__(self, ctx):
        self.ctx, self.pd, self.cq = ctx, PD(ctx), CQ(ctx, 16)
        self.mr = MR(self.pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
        cap = QPCap(max_send_wr=8, max_recv_wr=8)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))

    def connect(self, peer):
        a = QPAttr(port_num=1)
        a.dest_qp_num, a.path_mtu, a.qp_access_flags = peer.qp.qp_num, e.IBV_MTU_1024, 0
        a.max_rd_atomic, a.max_dest_rd_atomic, a.min_rnr_timer = 1, 1, 12
        a.timeout, a.retry_cnt, a.rnr_retry = 14, 7, 7
        gr = GlobalRoute(dgid=self.ctx.query_gid(1, 0), sgid_index=0)
        a.ah_attr = AHAttr(gr=gr, is_global=1, port_num=1)
        self.qp.to_rts(a)

    def poll(self):
        while True:
            n, wc = self.cq.poll(1)
            if n:
                assert wc[0].status == e.IBV_WC_SUCCESS, wc[0]
                return


def pair(ctx):
    a, b = End(ctx), End(ctx)
    a.connect(b)
    b.connect(a)
    return a, b


def exchange(a, b, text):
    b.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(b.mr.buf, 64, b.mr.lkey)]))
    a.mr.write(text, len(text))
    a.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(a.mr.buf, len(text), a.mr.lkey)]))
    a.poll()
    b.poll()
    got = b.mr.read(len(text), 0)
    assert got in (text, text.encode()), got


def child(ctx):
    x, y = pair(Context(name='rxe0'))
    for i in range(20):
        exchange(x, y, 'child %d' % i)
    pd = PD(ctx)
    MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE).close()
    pd.close()


if 'init' in sys.argv:
    assert ctypes.CDLL('libibverbs.so.1').ibv_fork_init() == 0
ctx = Context(name='rxe0')
a, b = pair(ctx)
exchange(a, b, 'before')
pid = os.fork()
if pid == 0:
    status = 1
    try:
        child(ctx)
        status = 0
    finally:
        os._exit(status)
for i in range(20):
    exchange(a, b, 'parent %d' % i)
_, status = os.waitpid(pid, 0)
exchange(a, b, 'after')
print('ended well' if status == 0 else 'the child failed')
