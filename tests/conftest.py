"""Shared by all tests: several workers share the machine, so idle threads must not spin."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
