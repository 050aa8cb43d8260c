"""The published simulator's training: int8 forward pass, fp32 gradients, fp32 shadow weights.

It is what the int8 arithmetic of an image is compared with ("On-Device Training Under 256KB
Memory"): same network, same plan, same samples in the same order.
"""

from mcutrain.shadow.network import Result, ShadowNetwork

__all__ = ["Result", "ShadowNetwork"]
