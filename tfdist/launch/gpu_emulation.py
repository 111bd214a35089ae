"""GPUs emulated on CPUs, so that a machine without any takes the paths that a job on GPUs takes.

`TFDIST_EMULATE_GPUS=nccl,xla,count=4 tfdist train ...` has workers exchange by every path of NCCL, over TensorFlow's
ring; `compile(jit_compile="auto")` compile with XLA as it does on a GPU; and the launcher find four GPUs on this
machine. It is for tests: results are those of GPUs but for rounding, and nothing gets faster.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.errors import UsageError

VARIABLE = "TFDIST_EMULATE_GPUS"


@dataclass(frozen=True)
class GpuEmulation:
    """The features of GPUs that are emulated on CPUs.

    Attributes:
        nccl: Whether workers exchange by the paths of NCCL, over TensorFlow's ring.
        xla: Whether `jit_compile="auto"` is what it is on one GPU.
        count: How many GPUs the launcher finds on this machine; None for those that there are.
    """

    nccl: bool = False
    xla: bool = False
    count: int | None = None

    @classmethod
    def parse(cls, text: str) -> GpuEmulation:
        """Reads the value of the variable; an empty one emulates nothing.

        Raises:
            UsageError: It names something else.
        """
        fields: dict[str, bool | int] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if name == "count" and value.isdecimal():
                fields["count"] = int(value)
            elif part in ("nccl", "xla"):
                fields[part] = True
            else:
                raise UsageError(
                    f"{VARIABLE} expects some of nccl, xla and count=N, with commas between them, such as "
                    f"nccl,xla,count=4. Received: {text!r}"
                )
        return cls(**fields)  # type: ignore[arg-type]
