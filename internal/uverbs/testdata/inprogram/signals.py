# Handlers of Python run between instructions of Python, whatever the device does.
import signal
import time

import pyverbs.device
import pyverbs.enums
from pyverbs.mr import MR
from pyverbs.pd import PD

hits = 0


def tick(*_):
    global hits
    hits += 1


signal.signal(signal.SIGALRM, tick)
pd = PD(pyverbs.device.Context(name='rxe0'))
signal.setitimer(signal.ITIMER_REAL, .001, .001)
end = time.time() + 60
while hits < 300 and time.time() < end:
    MR(pd, 65536, pyverbs.enums.IBV_ACCESS_LOCAL_WRITE).close()
signal.setitimer(signal.ITIMER_REAL, 0)
print('ok' if hits >= 300 else f'{hits} signals in 60 seconds')
