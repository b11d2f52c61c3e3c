"""For every test: one thread for small matrices, and no example is too slow on any machine."""

from __future__ import annotations

import os
import sys

# Two processes run the tests; each with its own threads they wait for one another many times over.
# Before numpy is first imported, and for the servers that tests start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Some fifty processes are started on the way: what one has compiled, the next need not.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import pytest
from hypothesis import HealthCheck, settings

sys.dont_write_bytecode = False
pytest.register_assert_rewrite("helpers")

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
