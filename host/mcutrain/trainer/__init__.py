"""Train and evaluate: samples and a device in, trained state and telemetry out.

The device is anything with the methods of `mcutrain.link.Device`: the firmware app in this
process, on an emulator, or on a board. Order, views, rates and random bits follow from seeds alone,
so that a run that was interrupted and resumed ends with the bytes of one that was not.
"""

from mcutrain.trainer.cached_device import CachedDevice
from mcutrain.trainer.calibrate import calibrated
from mcutrain.trainer.checkpoint import Checkpoint
from mcutrain.trainer.encode import Encode, encoder, samples_of, shape_hint
from mcutrain.trainer.host_run import HostRun
from mcutrain.trainer.prefix import CACHE_BYTES, PrefixCache
from mcutrain.trainer.schedule import MAX_STEPS, Schedule, order_of, visits
from mcutrain.trainer.steps import Evaluation, Inputs, evaluate, inputs_of, train

__all__ = [
    "CACHE_BYTES",
    "MAX_STEPS",
    "CachedDevice",
    "Checkpoint",
    "Encode",
    "Evaluation",
    "HostRun",
    "Inputs",
    "PrefixCache",
    "Schedule",
    "calibrated",
    "encoder",
    "evaluate",
    "inputs_of",
    "order_of",
    "samples_of",
    "shape_hint",
    "train",
    "visits",
]
