#!/usr/bin/python3
"""One end of the verbs exerciser, over Debian's pyverbs. README.md beside this folder is the protocol.

    verbs_peer.py --role server --dev rxe0 --gid-index 1 --listen 0.0.0.0 --port 18515
    verbs_peer.py --role client --dev rxe0 --gid-index 1 --connect 10.77.0.1 --port 18515 --scenario rc_send_1,ud_send_1
"""

import argparse
import errno
import hashlib
import ipaddress
import json
import os
import secrets
import socket
import sys
import time

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cmid import CMID, AddrInfo, ConnParam
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

BUFFER = 65536
QKEY = 0x11111111
ACCESS = ["LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND"]
QP_ACCESS = ["REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC"]
PATIENCE = 60  # seconds for a message of the peer
POLL_MS = 10000  # for a completion

# The period is prime, so data that lands a whole number of packets off shows.
PATTERN = {
    "client": bytes((3 * i + 1) % 251 for i in range(251)),
    "server": bytes((5 * i + 2) % 251 for i in range(251)),
}


def names(prefix, wanted):
    return {getattr(e, n): n[len(prefix):] for n in dir(e) if n.startswith(prefix) and wanted(n[len(prefix):])}


# Statuses, opcodes and flags share their prefix.
STATUS = names("IBV_WC_", lambda n: n == "SUCCESS" or n.endswith("_ERR"))
OPCODE = names("IBV_WC_", lambda n: n in (
    "SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV", "RECV", "RECV_RDMA_WITH_IMM"))
STATE = names("IBV_QPS_", lambda n: True)
FLAGS = {e.IBV_WC_GRH: "GRH", e.IBV_WC_WITH_IMM: "WITH_IMM", e.IBV_WC_WITH_INV: "WITH_INV"}


def bits(prefix, words):
    value = 0
    for word in words:
        value |= getattr(e, prefix + word)
    return value


class Wire:
    """The conversation with the peer: JSON values, one per line."""

    def __init__(self, conn):
        conn.settimeout(PATIENCE)
        self.conn = conn
        self.lines = conn.makefile("r", encoding="utf-8")

    def send(self, message):
        self.conn.sendall((json.dumps(message) + "\n").encode())

    def receive(self):
        line = self.lines.readline()
        return json.loads(line) if line else None


class Side:
    """What one end of one scenario owns and does."""

    def __init__(self, ctx, pd, args, wire, scenario):
        self.ctx, self.pd, self.args, self.wire = ctx, pd, args, wire
        self.scenario, self.me = scenario, scenario[args.role]
        self.barriers = 0
        self.mw, self.mw_rkey, self.peer_mw_rkey = None, 0, 0
        self.cmid = None
        self.result = {"scenario": scenario["name"], "role": args.role, "send": [], "recv": []}
        self.open()

    # --- set-up

    def open(self):
        size = self.me.get("buffer", BUFFER)
        self.mr = MR(self.pd, size, bits("IBV_ACCESS_", self.me.get("access", ACCESS)))
        self.size = size
        pattern = PATTERN[self.args.role]
        self.mr.write((pattern * (size // len(pattern) + 1))[:size], size)
        self.cqs = {"send": CQ(self.ctx, 256), "recv": CQ(self.ctx, 256)}
        pieces = 6 if self.args.cm else 8  # siw has no more
        cap = QPCap(max_send_wr=128, max_recv_wr=128, max_send_sge=pieces, max_recv_sge=pieces, max_inline_data=64)
        init = QPInitAttr(qp_type=getattr(e, "IBV_QPT_" + self.scenario["qp"]), scq=self.cqs["send"], rcq=self.cqs["recv"], cap=cap, sq_sig_all=0)
        self.qp = QP(self.pd, init)
        self.psn = self.scenario.get("psn", secrets.randbits(24))

    def hello(self):
        return {
            "scenario": self.scenario["name"], "qpn": self.qp.qp_num, "psn": self.psn, "gid": self.args.gid,
            "mtu": self.scenario.get("mtu", self.args.mtu), "qkey": QKEY,
            "addr": self.mr.buf, "rkey": self.mr.rkey, "len": self.size, "cm": self.args.cm,
        }

    def connect(self, peer):
        self.peer = peer
        kind, me = self.scenario["qp"], self.me
        attr = QPAttr(port_num=1)
        attr.pkey_index = 0
        attr.qp_state = e.IBV_QPS_INIT
        mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT
        if kind == "UD":
            attr.qkey = QKEY
            mask |= e.IBV_QP_QKEY
        else:
            attr.qp_access_flags = bits("IBV_ACCESS_", me.get("qp_access", QP_ACCESS))
            mask |= e.IBV_QP_ACCESS_FLAGS
        self.qp.modify(attr, mask)
        if self.args.cm:
            self.manage()
            return

        route = GlobalRoute(dgid=GID(ipaddress.IPv6Address(peer["gid"]).exploded), sgid_index=self.args.gid_index)
        route.hop_limit = 64
        way = AHAttr(gr=route, is_global=1, port_num=1)
        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_RTR
        mask = e.IBV_QP_STATE
        if kind == "UD":
            self.ah = AH(self.pd, attr=way)
        else:
            mtu = min(self.hello()["mtu"], peer["mtu"])
            attr.path_mtu = getattr(e, "IBV_MTU_%d" % mtu)
            attr.dest_qp_num, attr.rq_psn, attr.ah_attr = peer["qpn"], peer["psn"], way
            mask |= e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
        if kind == "RC":
            attr.max_dest_rd_atomic = me.get("rd_atomic", 4)
            attr.min_rnr_timer = me.get("min_rnr_timer", 12)
            mask |= e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER
        self.qp.modify(attr, mask)

        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_RTS
        attr.sq_psn = self.psn
        mask = e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
        if kind == "RC":
            attr.timeout = me.get("timeout", 18)
            attr.retry_cnt = me.get("retry_cnt", 7)
            attr.rnr_retry = me.get("rnr_retry", 7)
            attr.max_rd_atomic = me.get("rd_atomic", 4)
            mask |= e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC
        self.qp.modify(attr, mask)

    def manage(self):
        """Lets the connection manager take the queue pair to RTS, which on iWARP nobody else can."""
        rd = self.me.get("rd_atomic", 4)
        param = ConnParam(resources=rd, depth=rd, qp_num=self.qp.qp_num)
        if self.args.role == "server":
            self.cmid = self.args.listener.get_request()
            self.cmid.accept(param)
        else:
            way = AddrInfo(src=self.args.cm, dst=self.args.cm_via or self.peer["cm"], dst_service=str(self.args.cm_port), port_space=ce.RDMA_PS_TCP)
            self.cmid = CMID(creator=way)
            self.cmid.connect(param)

    def close(self):
        if self.cmid is not None:
            try:
                self.cmid.disconnect()
            except PyverbsError:
                pass  # it has ended
            self.cmid.close()
        # A bound window holds its queue pair: rxe waits 50 s for it in destroy_qp.
        for thing in (self.mw, self.qp, getattr(self, "ah", None), self.mr, *self.cqs.values()):
            if thing is not None:
                thing.close()

    # --- steps

    def run(self):
        for i, step in enumerate(self.me["steps"]):
            try:
                getattr(self, "do_" + step["do"])(step)
            except PyverbsRDMAError as err:
                self.result.setdefault("refused", []).append({"step": i, "errno": errno.errorcode.get(abs(err.error_code), str(err.error_code))})
            except PyverbsError as err:
                self.result.setdefault("refused", []).append({"step": i, "error": str(err)})
        self.do_barrier({})
        self.settle()
        first = self.me.get("hash_from", 0)
        self.result["sha256"] = hashlib.sha256(self.mr.read(self.size - first, first)).hexdigest()
        if self.scenario["qp"] == "UD" and first == 40:
            self.result["grh"] = self.mr.read(40, 0).hex()
        if self.qp is not None:
            attr, _ = self.qp.query(e.IBV_QP_STATE)
            self.result["state"] = STATE[attr.qp_state]
        else:
            self.result["state"] = "DESTROYED"
        if self.args.cm:
            self.do_barrier({})  # the end of one side's connection is the other's
        return self.result

    def settle(self):
        """Over iWARP a WRITE has completed when TCP has it, and not when it is in its place."""
        other = self.scenario["server" if self.args.role == "client" else "client"]
        if self.args.cm and any(step.get("op") == "RDMA_WRITE" for step in other["steps"]):
            time.sleep(0.3)

    def do_barrier(self, _):
        self.barriers += 1
        self.wire.send({"barrier": self.barriers, "mw_rkey": self.mw_rkey})
        answer = self.wire.receive()
        if answer is None or answer.get("barrier") != self.barriers:
            raise SystemExit("%s: the peer answered %s at barrier %d" % (self.scenario["name"], answer, self.barriers))
        self.peer_mw_rkey = answer["mw_rkey"]

    def do_sleep(self, step):
        time.sleep(step["ms"] / 1000)

    def pieces(self, step):
        return [SGE(self.mr.buf + off, length, self.mr.lkey) for off, length in step["sge"]]

    def do_recv(self, step):
        pieces = self.pieces(step)
        self.qp.post_recv(RecvWR(wr_id=step["wr"], num_sge=len(pieces), sg=pieces))

    def key(self, step):
        key = step.get("key", "mr")
        return {"mr": self.peer["rkey"], "mw": self.peer_mw_rkey, "bad": self.peer["rkey"] ^ 0x80}[key]

    def do_send(self, step):
        op, pieces = step["op"], self.pieces(step)
        wr = SendWR(wr_id=step["wr"], opcode=getattr(e, "IBV_WR_" + op), num_sge=len(pieces), sg=pieces or None,
                    send_flags=bits("IBV_SEND_", step.get("flags", ["SIGNALED"])))
        if "imm" in step:
            wr.imm_data = socket.htonl(step["imm"])
        remote = self.peer["addr"] + step.get("roff", 0)
        if op.startswith("RDMA_"):
            wr.set_wr_rdma(self.key(step), remote)
        elif op == "ATOMIC_CMP_AND_SWP":
            wr.set_wr_atomic(self.key(step), remote, step["compare"], step["swap"])
        elif op == "ATOMIC_FETCH_AND_ADD":
            wr.set_wr_atomic(self.key(step), remote, step["add"])
        elif op == "SEND_WITH_INV":
            wr.imm_data = self.key(step)  # the same union member in C
            if self.args.cm:
                wr.set_wr_rdma(self.key(step), 0)  # where siw's library looks for it
        if self.scenario["qp"] == "UD":
            wr.set_wr_ud(self.ah, self.peer["qpn"], self.peer["qkey"] ^ (1 if step.get("qkey") == "bad" else 0))
        self.qp.post_send(wr)

    def do_bind_mw(self, step):
        if self.mw is None:
            self.mw = MW(self.pd, e.IBV_MW_TYPE_1 if step["type"] == 1 else e.IBV_MW_TYPE_2)
        info = MWBindInfo(self.mr, self.mr.buf + step["off"] if step["len"] else 0, step["len"], bits("IBV_ACCESS_", step["access"]))
        if step["type"] == 1:
            self.qp.bind_mw(self.mw, MWBind(info, e.IBV_SEND_SIGNALED, wr_id=step["wr"]))
            if step["len"]:
                self.mw_rkey = self.mw.rkey
            return
        wr = SendWR(wr_id=step["wr"], opcode=e.IBV_WR_BIND_MW)
        wr.set_bind_wr(self.mw, info)
        self.qp.post_send(wr)
        self.mw_rkey = wr.rkey

    def do_local_inv(self, step):
        wr = SendWR(wr_id=step["wr"], opcode=e.IBV_WR_LOCAL_INV)
        wr.imm_data = self.mw_rkey
        self.qp.post_send(wr)

    def do_error_qp(self, _):
        attr = QPAttr()
        attr.qp_state = e.IBV_QPS_ERR
        self.qp.modify(attr, e.IBV_QP_STATE)

    def do_destroy_qp(self, _):
        self.qp.close()
        self.qp = None

    def do_poll(self, step):
        if not self.collect(step["cq"], step.get("n", 1), step.get("ms", POLL_MS)):
            self.result.setdefault("missing", []).append(step["cq"])

    def do_drain(self, step):
        end = time.monotonic() + step["ms"] / 1000
        while True:
            over = time.monotonic() >= end  # one more look after the time
            for name in self.cqs:
                while self.collect(name, 1, 0):
                    pass
            if over:
                return
            time.sleep(0.005)

    def collect(self, name, n, ms):
        end = time.monotonic() + ms / 1000
        while n > 0:
            found, wcs = self.cqs[name].poll(n)
            for wc in wcs:
                self.result[name].append(self.describe(name, wc))
            n -= found
            if n > 0 and time.monotonic() >= end:
                return False
        return True

    def describe(self, name, wc):
        """Only what the standard defines for the status, opcode and queue."""
        d = {"wr": wc.wr_id, "status": STATUS[wc.status]}
        if wc.status != e.IBV_WC_SUCCESS:
            return d
        d["opcode"] = OPCODE[wc.opcode]
        if name == "send":
            if d["opcode"] in ("RDMA_READ", "COMP_SWAP", "FETCH_ADD"):
                d["byte_len"] = wc.byte_len
            return d
        d["byte_len"] = wc.byte_len
        flags = [text for bit, text in FLAGS.items() if wc.wc_flags & bit]
        if self.scenario["qp"] != "UD" and "GRH" in flags:
            flags.remove("GRH")  # defined for datagrams only; rxe sets it always
        if flags:
            d["flags"] = flags
        if wc.wc_flags & e.IBV_WC_WITH_IMM:
            d["imm"] = socket.ntohl(wc.imm_data)
        if wc.wc_flags & e.IBV_WC_WITH_INV:
            d["invalidated"] = "mw" if wc.imm_data == self.mw_rkey else hex(wc.imm_data)
        if self.scenario["qp"] == "UD":
            d["src_qp"] = "peer" if wc.src_qp == self.peer["qpn"] else hex(wc.src_qp)
        return d


def one(ctx, pd, args, wire, scenario, peer=None):
    began = time.monotonic()
    side = Side(ctx, pd, args, wire, scenario)
    try:
        wire.send(side.hello())
        peer = peer or wire.receive()
        if peer is None or "error" in peer:
            raise SystemExit("%s: the peer says %s" % (scenario["name"], peer))
        side.connect(peer)
        print(json.dumps(side.run()), flush=True)
    finally:
        ended = time.monotonic()
        side.close()
        print("%s: %.2f s, closed in %.2f s" % (scenario["name"], ended - began, time.monotonic() - ended), file=sys.stderr, flush=True)


def client(ctx, pd, args, scenarios):
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            conn = socket.create_connection((args.connect, args.port), timeout=5)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    wire = Wire(conn)
    wanted = args.scenario.split(",") if args.scenario != "all" else list(scenarios)
    for name in wanted:
        if name not in scenarios:
            raise SystemExit("no scenario is named " + name)
        one(ctx, pd, args, wire, scenarios[name])


def server(ctx, pd, args, scenarios):
    family = socket.AF_INET6 if ":" in args.listen else socket.AF_INET
    listener = socket.create_server((args.listen, args.port), family=family)
    listener.settimeout(PATIENCE)
    print(json.dumps({"listening": args.port}), flush=True)
    conn, _ = listener.accept()
    wire = Wire(conn)
    while True:
        peer = wire.receive()
        if peer is None:
            return
        if peer["scenario"] not in scenarios:
            wire.send({"error": "no scenario is named " + peer["scenario"]})
            continue
        one(ctx, pd, args, wire, scenarios[peer["scenario"]], peer)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--role", choices=["client", "server"], required=True)
    p.add_argument("--dev", default="rxe0")
    p.add_argument("--gid-index", type=int, default=1)
    p.add_argument("--listen", default="0.0.0.0")
    p.add_argument("--connect", default="127.0.0.1")
    p.add_argument("--port", type=int, default=18515)
    p.add_argument("--cm", default="", help="own address on an iWARP device, whose queue pairs a connection manager connects; its port is 10000 above")
    p.add_argument("--cm-via", default="", help="where the client's connection manager connects to, in place of the server")
    p.add_argument("--mtu", type=int, default=1024)
    p.add_argument("--scenario", default="all", help="names with commas between, or all; the server runs what the client names")
    p.add_argument("--scenarios", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios.json"))
    args = p.parse_args()
    with open(args.scenarios, encoding="utf-8") as f:
        scenarios = {s["name"]: s for s in json.load(f)}
    ctx = Context(name=args.dev)
    args.gid = str(ipaddress.IPv6Address(str(ctx.query_gid(1, args.gid_index))))
    pd = PD(ctx)
    args.cm_port = args.port + 10000
    if args.cm and args.role == "server":
        here = AddrInfo(src=args.cm, src_service=str(args.cm_port), port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE)
        args.listener = CMID(creator=here)
        args.listener.listen()
    {"client": client, "server": server}[args.role](ctx, pd, args, scenarios)


if __name__ == "__main__":
    sys.exit(main())
