# Exchanges datagrams by RDS, and compares them: rds.py OWN PEER [serve]
import os, socket, struct, sys

own, peer, serves = sys.argv[1], sys.argv[2], len(sys.argv) > 3
AF_RDS, SOL_RDS, SO_RDS_TRANSPORT, OVER_IB = 21, 276, 8, 0
s = socket.socket(AF_RDS, socket.SOCK_SEQPACKET, 0)
s.bind((own, 4000 if serves else 4001))
transport = struct.unpack("i", s.getsockopt(SOL_RDS, SO_RDS_TRANSPORT, 4))[0]
if transport != OVER_IB:
    sys.exit("transport %d" % transport)
s.settimeout(60)
sizes = [1, 100, 4096, 5000, 65536] * 10
if serves:
    print("listening", flush=True)
    for n in sizes:
        data, at = s.recvfrom(1 << 20)
        if len(data) != n:
            sys.exit("expected %d bytes, found %d" % (n, len(data)))
        s.sendto(data[::-1], at)
    s.recvfrom(1)  # the client has all answers
else:
    for n in sizes:
        data = os.urandom(n)
        s.sendto(data, (peer, 4000))
        answer, _ = s.recvfrom(1 << 20)
        if answer != data[::-1]:
            sys.exit("another answer to %d bytes" % n)
    s.sendto(b"x", (peer, 4000))
    print("%d messages each way by RDS over RDMA" % len(sizes))
