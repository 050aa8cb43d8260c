"""The C kernels and executor on the host: built on first use, called through cffi."""

from mcutrain.engine.engine import Engine, StepResult, verify

__all__ = ["Engine", "StepResult", "verify"]
