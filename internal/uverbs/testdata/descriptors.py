"""Makes what takes descriptors until there are none left, and goes on."""
import os
import resource

from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context

first = Context(name='rxe0')
CQ(first, 10).close()
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
others = []


def ring():
    others.append(os.dup(0))  # a ring takes none, once it is mapped
    return CQ(first, 10)


for name, make in ('channels', lambda: CompChannel(first)), ('queues', ring):
    held = []
    try:
        while True:
            held.append(make())
    except Exception as why:
        print(name, why)
    for x in held:
        x.close()
    for fd in others:
        os.close(fd)
    others.clear()
CompChannel(first).close()
CQ(first, 10).close()
Context(name='rxe0').close()
print('works again')
