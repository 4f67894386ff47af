"""Posts receives to a queue pair in ERR, and polls or sleeps until each is flushed."""
import sys
import time

import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR

ctx = Context(name='rxe0')
channel = CompChannel(ctx)
cq = CQ(ctx, 10, None, channel)
pd = PD(ctx)
mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_recv_wr=4)))
qp.to_init(QPAttr(port_num=1))
qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)


def post(number):
    qp.post_recv(RecvWR(wr_id=number, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)]))


def flushed(number):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        n, got = cq.poll()
        if n:
            if got[0].status != e.IBV_WC_WR_FLUSH_ERR or got[0].wr_id != number:
                sys.exit(f'receive {number}: {got[0]}')
            return
    sys.exit(f'receive {number} was not flushed')


for i in range(20):  # more than the queue holds
    post(i)
    flushed(i)
for i in range(3):
    cq.req_notify()
    post(i)
    channel.get_cq_event(cq)
    cq.ack_events(1)
    flushed(i)
print('all were flushed')
