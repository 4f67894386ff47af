# Runs rdma-core's tests of the folder tests. A test that waits for TEST_TIMEOUT seconds fails, so that the
# others still run: one waits without end for a datagram that is lost.
import os
import runpy
import signal
import sys
import unittest

limit = int(os.environ.get("TEST_TIMEOUT", 60))
run = unittest.TestCase.run


def late(*_):
    raise TimeoutError(f"the test waits for {limit} seconds")


def limited(test, result=None):
    signal.alarm(limit)
    try:
        return run(test, result)
    finally:
        signal.alarm(0)


signal.signal(signal.SIGALRM, late)
unittest.TestCase.run = limited
sys.path.insert(0, "tests")
runpy.run_path("tests/run_tests.py", run_name="__main__")
