"""Registers memory that is to be shared, in every way that it may lie, and checks what is done to it."""
import ctypes
import mmap
import os
import random
import resource
import sys
import threading

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PAGE, MIB = 4096, 1 << 20
RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.malloc.restype = ctypes.c_void_p
for f in libc.munmap, libc.mlock, libc.madvise, libc.msync:
    f.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + ([ctypes.c_int] if f in (libc.madvise, libc.msync) else [])
libc.free.argtypes = [ctypes.c_void_p]


def allocate(n, flags=0):
    at = libc.mmap(None, n, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags, -1, 0)
    assert at != ctypes.c_void_p(-1).value
    return at


def put(at, data):
    ctypes.memmove(at, data, len(data))


def get(at, n):
    return ctypes.string_at(at, n)


def shared():
    """How many bytes of this process's memory are shared with the server."""
    n = 0
    with open('/proc/self/maps') as f:
        for line in f:
            if 'softrdma-share' in line:
                assert line.split()[1] == 'rw-s', line
                a, b = line.split()[0].split('-')
                n += int(b, 16) - int(a, 16)
    return n


class End:
    def __init__(self, ctx, pd):
        self.cq = CQ(ctx, 64)
        cap = QPCap(max_send_wr=32, max_recv_wr=32, max_send_sge=4, max_recv_sge=4)
        self.qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))

    def connect(self, ctx, peer):
        a = QPAttr(port_num=1)
        a.dest_qp_num, a.path_mtu, a.qp_access_flags = peer.qp.qp_num, e.IBV_MTU_1024, RIGHTS
        a.max_rd_atomic, a.max_dest_rd_atomic, a.min_rnr_timer = 1, 1, 12
        a.timeout, a.retry_cnt, a.rnr_retry = 14, 7, 7
        a.ah_attr = AHAttr(gr=GlobalRoute(dgid=ctx.query_gid(1, 0), sgid_index=0), is_global=1, port_num=1)
        self.qp.to_rts(a)

    def poll(self):
        while True:
            n, wc = self.cq.poll(1)
            if n:
                assert wc[0].status == e.IBV_WC_SUCCESS, wc[0]
                return

    def post(self, opcode, local, n, lkey, remote=0, rkey=0, compare=0, swap=0):
        wr = SendWR(opcode=opcode, num_sge=1, sg=[SGE(local, n, lkey)])
        if opcode in (e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP):
            wr.set_wr_atomic(rkey, remote, compare, swap)
        elif rkey:
            wr.set_wr_rdma(rkey, remote)
        self.qp.post_send(wr)
        self.poll()


class Setup:
    def __init__(self):
        self.ctx = Context(name='rxe0')
        self.pd = PD(self.ctx)
        self.a, self.b = End(self.ctx, self.pd), End(self.ctx, self.pd)
        self.a.connect(self.ctx, self.b)
        self.b.connect(self.ctx, self.a)

    def register(self, at, n):
        return MR(self.pd, n, RIGHTS, address=at)

    def write(self, src, src_mr, dst, dst_mr, n):
        self.a.post(e.IBV_WR_RDMA_WRITE, src, n, src_mr.lkey, dst, dst_mr.rkey)


def exchange(s, rounds, src, smr, dst, dmr, size):
    """Random messages from src to dst and back; the rest of both stays as it is."""
    r = random.Random(size)
    have, want = bytearray(r.randbytes(size)), bytearray(r.randbytes(size))
    put(src, bytes(have))
    put(dst, bytes(want))
    for _ in range(rounds):
        n = min(size, int(2 ** r.uniform(0, 21)))
        i, j = r.randrange(size - n + 1), r.randrange(size - n + 1)
        what = r.randrange(3)
        if what == 0:
            s.write(src + i, smr, dst + j, dmr, n)
            want[j:j + n] = have[i:i + n]
        elif what == 1:
            s.a.post(e.IBV_WR_RDMA_READ, src + i, n, smr.lkey, dst + j, dmr.rkey)
            have[i:i + n] = want[j:j + n]
        else:
            s.b.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(dst + j, n, dmr.lkey)]))
            s.a.post(e.IBV_WR_SEND, src + i, n, smr.lkey)
            s.b.poll()
            want[j:j + n] = have[i:i + n]
        k = r.randrange(size)  # the program's own
        put(src + k, b'x')
        have[k:k + 1] = b'x'
    assert get(src, size) == have and get(dst, size) == want, 'data differs'


def data():
    s = Setup()
    # (offset of either end, length), and whether that end is shared
    for oa, ob, n in (0, 0, 3 * MIB), (100, 4000, 3 * MIB), (8, 0, 70_000), (1, 2, 2 * MIB + 3), (0, 5, 4096), (0, 0, 20 * MIB):
        for touched in False, True:
            src, dst = allocate(n + 2 * PAGE), allocate(n + 2 * PAGE)
            if touched:
                put(src + oa, b'old' * (n // 3))
            smr, dmr = s.register(src + oa, n), s.register(dst + ob, n)
            expected = sum(-o // PAGE * PAGE + (o + n) // PAGE * PAGE for o in (oa, ob)) if n >= 70_000 else 0
            assert shared() == expected, (oa, ob, n, shared(), expected)
            assert get(src + oa, n // 3 * 3) == (b'old' if touched else b'\0\0\0') * (n // 3)
            exchange(s, 60, src + oa, smr, dst + ob, dmr, n)
            before = get(src, n + 2 * PAGE), get(dst, n + 2 * PAGE)
            smr.close()
            assert shared() * 2 <= expected + PAGE
            dmr.close()
            assert shared() == 0 and before == (get(src, n + 2 * PAGE), get(dst, n + 2 * PAGE))
            libc.munmap(src, n + 2 * PAGE)
            libc.munmap(dst, n + 2 * PAGE)
    print('data is right')


def atomics():
    s = Setup()
    at = allocate(MIB)
    mr = s.register(at, MIB)
    assert shared() == MIB
    for off in 0, MIB - 8, 64 * 1024:
        put(at + off, (1000).to_bytes(8, 'little'))
        s.a.post(e.IBV_WR_ATOMIC_FETCH_AND_ADD, at + 4096, 8, mr.lkey, at + off, mr.rkey, 5)
        assert get(at + 4096, 8) == (1000).to_bytes(8, 'little')
        s.a.post(e.IBV_WR_ATOMIC_CMP_AND_SWP, at + 4096, 8, mr.lkey, at + off, mr.rkey, 1005, 7)
        assert get(at + 4096, 8) == (1005).to_bytes(8, 'little') and get(at + off, 8) == (7).to_bytes(8, 'little')
    mr.close()
    print('atomics are right')


def regions():
    """Several regions over the same pages, given up in any order."""
    s = Setup()
    at, n = allocate(4 * MIB), 4 * MIB
    r = random.Random(1)
    want = bytearray(r.randbytes(n))
    put(at, bytes(want))
    src = allocate(MIB)
    smr = s.register(src, MIB)
    base = shared()
    held = []
    for i in range(300):
        if held and r.random() < .5:
            held.pop(r.randrange(len(held)))[2].close()
        else:
            off = r.randrange(n - 2 * PAGE) if i % 3 else 0
            held.append((off, k := r.randrange(PAGE, n - off) if i % 3 else n, s.register(at + off, k)))
        for off, k, mr in held:
            k = min(k, r.choice((8, 5000, 100_000, MIB)))
            data = r.randbytes(k)
            put(src, data)
            s.write(src, smr, at + off, mr, k)
            want[off:off + k] = data
            assert get(at + off, k) == data
        if r.random() < .1:
            assert get(at, n) == want
    assert get(at, n) == want
    for _, _, mr in held:
        mr.close()
    assert get(at, n) == want
    # However they overlapped, nothing of it is shared with the server now, so
    # that the next region may be.
    mr = s.register(at, n)
    put(src, b'last')
    s.write(src, smr, at + n - 4, mr, 4)
    assert get(at + n - 4, 4) == b'last'
    mr.close()
    smr.close()
    print('regions are right', base)


def fork(dontfork):
    s = Setup()
    n = 3 * MIB
    at, src = allocate(n), allocate(MIB)
    put(at, b'parent' * (n // 6))
    mr, smr = s.register(at, n), s.register(src, MIB)
    assert shared() == n + MIB
    begin, told = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert shared() == 0, shared()
            mine = any(int(x.split('-')[0], 16) <= at < int(x.split('-')[1].split()[0], 16) for x in open('/proc/self/maps'))
            assert mine == (not dontfork), mine
            if mine:
                assert get(at, n) == b'parent' * (n // 6)
                put(at + MIB, b'child')
            os.write(told[1], b'1')
            os.read(begin[0], 1)  # until a peer has written to the parent's
            if mine:
                assert get(at, 6) == b'parent' and get(at + MIB, 5) == b'child'
                # And memory of its own can be shared as its parent's was.
                c = Setup()
                x, y = c.register(at, n), c.register(src, MIB)
                assert shared() == n + MIB
                put(src, b'again')
                c.write(src, y, at + 99, x, 5)
                assert get(at + 99, 5) == b'again'
                x.close()
                y.close()
                assert shared() == 0
            status = 0
        finally:
            os._exit(status)
    os.read(told[0], 1)
    assert shared() == n + MIB
    put(src, b'peer')
    s.write(src, smr, at, mr, 4)
    assert get(at, 6) == b'peernt' and get(at + MIB, 5) != b'child'
    os.write(begin[1], b'1')
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
    assert os.system('true') == 0
    # Where it cannot be told what to copy, a child has none of it.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard[1]))
    pid = os.fork()
    if pid == 0:
        os._exit(0 if libc.msync(at, n, 1) != 0 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, hard)
    libc.madvise(at, n, mmap.MADV_DOFORK)
    mr.close()
    smr.close()
    assert shared() == 0
    pid = os.fork()  # after which nothing is left to be copied
    if pid == 0:
        os._exit(0 if get(at, 6) == b'peernt' else 1)
    assert os.waitpid(pid, 0)[1] == 0
    print('fork is right')


def unshared():
    """What is left alone."""
    s = Setup()

    def check(what, at, n, expected=0):
        put(at, b'before')
        mr = s.register(at, n)
        assert shared() == expected, (what, shared())
        put(src, b'after.')
        s.write(src, smr, at, mr, 6)
        assert get(at, 6) == b'after.', what
        mr.close()

    src = allocate(PAGE)
    smr = s.register(src, PAGE)
    check('ordinary memory', allocate(MIB), MIB, MIB)
    check('short', allocate(PAGE * 15), PAGE * 15)
    check('not one whole page', allocate(2 * PAGE) + 100, PAGE)
    at = allocate(MIB)
    if libc.mlock(at, PAGE) == 0:
        check('locked', at, MIB)
    check('shared', libc.mmap(None, MIB, 3, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, -1, 0), MIB)
    at = allocate(MIB)
    libc.madvise(at + 2 * PAGE, PAGE, mmap.MADV_DONTFORK)
    check('of two kinds', at, MIB)
    libc.madvise(at, MIB, 18)  # MADV_WIPEONFORK
    check('wiped on fork', at, MIB)
    over, wait = threading.Event(), threading.Event()
    t = threading.Thread(target=lambda: (wait.set(), over.wait()))
    t.start()
    wait.wait()
    check('with a thread', allocate(MIB), MIB)
    over.set()
    t.join()
    # Shared while there was one thread, given up when there are two.
    at = allocate(MIB)
    put(at, b'x' * MIB)
    mr = s.register(at, MIB)
    over.clear()
    wait.clear()
    t = threading.Thread(target=lambda: (wait.set(), over.wait()))
    t.start()
    wait.wait()
    mr.close()
    assert shared() == MIB and get(at, MIB) == b'x' * MIB
    check('again', at, MIB, MIB)
    pid = os.fork()
    if pid == 0:
        put(at, b'child')
        os._exit(shared() != 0)
    assert os.waitpid(pid, 0)[1] == 0 and get(at, 5) == b'after'
    over.set()
    t.join()
    check('again with one thread', at, MIB, MIB)
    # Memory that goes while it is registered, and what comes in its place.
    at = allocate(MIB)
    mr = s.register(at, MIB)
    libc.munmap(at, MIB // 2)
    assert os.system('true') == 0
    pid = os.fork()
    if pid == 0:
        os._exit(get(at + MIB // 2, 1) != b'\0')
    assert os.waitpid(pid, 0)[1] == 0
    mr.close()
    at = allocate(MIB)
    mr = s.register(at, MIB)
    libc.munmap(at, MIB)
    mr.close()
    check('after all', allocate(MIB), MIB, shared() + MIB)
    print('what is left alone is right')


if 'init' in sys.argv:
    assert ctypes.CDLL('libibverbs.so.1').ibv_fork_init() == 0
{'data': data, 'atomics': atomics, 'regions': regions, 'unshared': unshared, 'fork': lambda: fork('init' in sys.argv)}[sys.argv[1]]()
