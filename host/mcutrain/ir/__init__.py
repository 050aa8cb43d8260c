"""The two intermediate representations, and what each of their operators means.

`graph` holds what the user has: a network of operators (`ops`), in float or int8. `program` holds
what a chip does in one training step: instructions (`instructions`) over values in arena, state or
constants. `reference` defines every instruction in numpy, to the bit of docs/SPEC-arithmetic.md.
"""
