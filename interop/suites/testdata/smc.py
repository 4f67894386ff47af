# Exchanges a stream by SMC, and says what carries it: smc.py OWN PEER [serve]
import ctypes, os, socket, struct, sys, time

own, peer, serves = sys.argv[1], sys.argv[2], len(sys.argv) > 3
AF_SMC, EID = 43, b"SOFTRDMA".ljust(32)
libc = ctypes.CDLL(None, use_errno=True)


def attribute(kind, data):
    b = struct.pack("=HH", 4 + len(data), kind) + data
    return b + bytes(-len(b) % 4)


def netlink(family, kind, flags, body):
    """Sends a request and returns the bodies of the answers."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family)
    s.settimeout(10)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
    bodies = []
    while True:
        b = s.recv(1 << 16)
        while b:
            length, kind, _, _, _ = struct.unpack_from("=IHHII", b)
            if kind == 3:  # NLMSG_DONE
                return bodies
            if kind == 2:  # NLMSG_ERROR
                return bodies + [struct.unpack_from("=i", b, 16)[0]]
            bodies.append(b[16:length])
            b = b[(length + 3) & ~3:]


def attributes(b):
    found = {}
    while len(b) >= 4:
        length, kind = struct.unpack_from("=HH", b)
        found[kind & 0x7fff] = b[4:length]
        b = b[(length + 3) & ~3:]
    return found


def add_eid():
    """SMC-R version 2 wants an identifier that both hosts have. smc-tools would set it."""
    answer = netlink(16, 16, 5, struct.pack("=BBH", 3, 1, 0) + attribute(2, b"SMC_GEN_NETLINK\0"))
    family = struct.unpack("=H", attributes(answer[0][4:])[1])[0]
    return netlink(16, family, 5, struct.pack("=BBH", 10, 1, 0) + attribute(1, EID + b"\0"))[-1]


def carriers():
    """Returns what carries each connection of this host: smc_diag's mode, and the reasons of a fallback."""
    request = struct.pack("=BBBB48x", AF_SMC, 0, 0, 0xff)
    for b in netlink(4, 20, 0x301, request):
        if not isinstance(b, bytes):
            continue
        _, state, mode = struct.unpack_from("=BBB", b)
        fallback = attributes(b[64:]).get(5)
        yield state, {0: "SMC-R", 1: "TCP", 2: "SMC-D"}[mode], fallback and "own 0x%08x, peer 0x%08x" % struct.unpack("=II", fallback)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


print("EID:", add_eid(), flush=True)
s = socket.socket(AF_SMC, socket.SOCK_STREAM, 0)
address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 4002) + socket.inet_aton(own if serves else peer) + bytes(8)
data = bytes(i * i % 251 for i in range(300000))
if serves:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    check(libc.bind(s.fileno(), address, 16))
    check(libc.listen(s.fileno(), 1))
    print("listening", flush=True)
    c = socket.socket(AF_SMC, socket.SOCK_STREAM, 0, fileno=libc.accept(s.fileno(), None, None))
else:
    check(libc.connect(s.fileno(), address, 16))
    c = s
    c.sendall(data)
got = b""
while len(got) < len(data):
    b = c.recv(1 << 16)
    if not b:
        sys.exit("the stream ended after %d bytes" % len(got))
    got += b
if got != data:
    sys.exit("other data")
if serves:
    c.sendall(data)
else:
    print("carried by", list(carriers()))
