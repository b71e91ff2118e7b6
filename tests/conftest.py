"""Settings that every test shares."""

import signal

from hypothesis import settings

# the same examples on every run, however busy the machine
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

# A shell starts what runs in the background with Ctrl-C ignored. The processes that tests interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
