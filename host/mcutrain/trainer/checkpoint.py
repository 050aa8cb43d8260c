"""What a run can go on from."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from mcutrain.errors import InputError
from mcutrain.files import read_json, reason, write_atomic


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: steps done and the device's state after them."""

    step: int
    state: bytes

    def save(self, folder: Path) -> None:
        """Write state and step into a run folder, each whole or not at all."""
        name = f"state-{self.step}.bin"
        write_atomic(folder / name, self.state)
        entry = {"step": self.step, "state": name, "crc32": zlib.crc32(self.state)}
        write_atomic(folder / "checkpoint.json", json.dumps(entry))
        for old in folder.glob("state-*.bin"):
            if old.name != name:
                old.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path) -> Checkpoint:
        """The last checkpoint of a run folder.

        Raises:
            InputError: there is none, or it is damaged.
        """
        path = folder / "checkpoint.json"
        hint = "start the run anew in another folder, without --resume"
        try:
            data = read_json(path)
            step, name, crc = int(data["step"]), Path(str(data["state"])), int(data["crc32"])
            state = (folder / name.name).read_bytes()
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else reason(error)
            raise InputError(
                "the run has no checkpoint", where=str(path), why=why, hint=hint
            ) from error
        if step < 0 or zlib.crc32(state) != crc:
            raise InputError(
                "the checkpoint is damaged",
                where=str(folder / name.name),
                why=f"step {step}, CRC {zlib.crc32(state):08x}, {path.name} says {crc:08x}",
                hint=hint,
            )
        return cls(step, state)
