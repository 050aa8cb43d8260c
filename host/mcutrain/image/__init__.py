"""The packed file: header, tensors, programs, constants, initial state, metadata (SPEC-image)."""
