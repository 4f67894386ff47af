# Serves /run/nfs by Linux's NFS version 4 over RDMA, without the programs of nfs-utils: nfsd.py CLIENT
#
# It writes into the kernel's caches what those would answer: the client's domain, the export, and the file handle of its
# root, and accepts what the kernel registers with rpcbind.
import os, socket, struct, subprocess, sys

client = sys.argv[1]
NEVER = 4294967295
# NFSEXP_INSECURE_PORT, NFSEXP_ASYNC, NFSEXP_NOSUBTREECHECK, NFSEXP_FSID
FLAGS = 0x2 | 0x10 | 0x400 | 0x2000


def write(path, text):
    try:
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, (text + "\n").encode())
        os.close(fd)
    except OSError as e:
        sys.exit("%s: %s: %s" % (path, text, e))


def rpcbind():
    """Answers each call with true, in a process of its own."""
    path = "/run/rpcbind.sock"
    if os.path.exists(path):
        os.unlink(path)
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen(8)
    if os.fork() != 0:
        return
    null = os.open("/dev/null", os.O_RDWR)
    for fd in 0, 1, 2:
        os.dup2(null, fd)
    while True:
        c, _ = s.accept()
        if os.fork() == 0:
            while head := c.recv(4, socket.MSG_WAITALL):
                call = c.recv(struct.unpack("!I", head)[0] & 0x7fffffff, socket.MSG_WAITALL)
                c.sendall(struct.pack("!I", 1 << 31 | 28) + call[:4] + struct.pack("!6I", 1, 0, 0, 0, 0, 1))
            os._exit(0)


subprocess.run("modprobe -a nfsd rpcrdma; mkdir -p /run/nfs; [ -e /proc/fs/nfsd/threads ] || mount -t nfsd nfsd /proc/fs/nfsd", shell=True, check=True)
rpcbind()
write("/proc/net/rpc/auth.unix.ip/channel", "nfsd %s %d lab" % (client, NEVER))
write("/proc/net/rpc/nfsd.export/channel", "lab /run/nfs %d %d 65534 65534 0" % (NEVER, FLAGS))
write("/proc/net/rpc/nfsd.fh/channel", r"lab 1 \x00000000 %d /run/nfs" % NEVER)
write("/proc/fs/nfsd/nfsv4leasetime", "10")
write("/proc/fs/nfsd/nfsv4gracetime", "10")
write("/proc/fs/nfsd/portlist", "rdma 20049")
write("/proc/fs/nfsd/threads", "4")
