"""The C kernels and executor on the host: built on first use, called through cffi."""

from mcutrain.engine.cached import CachedEngine
from mcutrain.engine.engine import Engine, HookEvent, StepResult, verify

__all__ = ["CachedEngine", "Engine", "HookEvent", "StepResult", "verify"]
