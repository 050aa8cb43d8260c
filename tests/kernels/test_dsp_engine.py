"""Whole steps of random networks with the kernels for the DSP extension, on the host.

Unlike tests of single kernels they have the scratch memory that the compiler gives them.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.kernels.conftest import ROOT

NETWORKS = 500
CODE = f"""
from tests.random_networks import trained
for number in range({NETWORKS}):
    print(number, *trained(number))
"""


def _checksums(**environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=ROOT,
        env={**os.environ, "MCUTRAIN_SIMD": "none", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_random_networks_learn_alike() -> None:
    plain = _checksums()
    assert len(plain) == NETWORKS
    assert _checksums(CC=os.environ.get("CC", "cc") + " -DMCT_DSP_IN_C") == plain
    assert _checksums(MCUTRAIN_SIMD="auto") == plain
