"""What is to be trained: plans as data (`plan`), schemes that name them shortly (`scheme`),
fresh heads.
"""

from mcutrain.plan.plan import Plan

__all__ = ["Plan"]
