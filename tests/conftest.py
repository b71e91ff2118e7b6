"""Settings that every test shares."""

from hypothesis import settings

# the same examples on every run, however busy the machine
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
