"""Shared by all tests: several workers share the machine, so idle threads must not spin."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from hypothesis import settings

# Fixed examples: a run that passes here passes everywhere. `--hypothesis-profile=search` looks on.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None)
settings.load_profile("fixed")
