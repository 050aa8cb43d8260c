"""Rings of a segment that lie in the same bytes, one after the other.

The output of a depthwise convolution is a ring of one row: made, read by the next instruction, and
forgotten. Another convolution's row can take its place. Which rings are never there at the same
step of a segment's order is known from `rows.flow`; rings that agree with each other are put
together, the largest first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcutrain.passes.rows import Flow


def quarrels(flow: Flow, spans: Mapping[str, tuple[int, int]]) -> dict[str, set[str]]:
    """For each ring of a flow those that cannot lie where it lies.

    `spans` are the first and last instruction that touch a value, -1 for the network's inputs. The
    executor's verifier wants them apart, too, so that it can follow what bytes mean in the order of
    instructions. Rows of the input arrive when they want to: it shares with nobody.
    """
    found: dict[str, set[str]] = {name: set() for name in flow.rings}
    for a in flow.rings:
        for b in flow.rings:
            apart = spans[a][1] < spans[b][0] or spans[b][1] < spans[a][0]
            apart = apart and min(spans[a][0], spans[b][0]) >= 0
            if a != b and (not apart or flow.alive[a] & flow.alive[b]):
                found[a].add(b)
    return found


def take_turns(
    nbytes: Mapping[str, int], quarrel: Mapping[str, set[str]]
) -> Sequence[Sequence[str]]:
    """Rings in groups that share bytes, the largest one of each group first."""
    groups: list[list[str]] = []
    for name in sorted(nbytes, key=lambda n: (-nbytes[n], n)):
        group = next((g for g in groups if quarrel[name].isdisjoint(g)), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups
