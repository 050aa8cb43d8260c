"""A float graph and samples into an int8 graph.

`quantize` is all that most callers need; `calibrate` gives its ranges, `quantize_input` makes int8
samples, `dequantize` and `simulate` tell what the int8 network computes in real numbers.
"""

from mcutrain.quantize.calibrate import Range, calibrate
from mcutrain.quantize.dequantize import dequantize, simulate
from mcutrain.quantize.inputs import quantize_input
from mcutrain.quantize.quantizer import quantize

__all__ = ["Range", "calibrate", "dequantize", "quantize", "quantize_input", "simulate"]
