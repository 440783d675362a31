"""What a plan may change in results, if the user names it in `allow=`."""

from collections.abc import Iterable

from lowtide.errors import LowtideError

MICROBATCH, BFLOAT16, FLOAT16 = "microbatch", "bfloat16", "float16"

ALLOWANCES = {
    MICROBATCH: "BatchNormalization sees a part of the batch at a time",
    BFLOAT16: "layers compute in bfloat16",
    FLOAT16: "layers compute in float16, with loss scaling",
}
"""What may be allowed, and what it changes."""


def check_allow(allow: str | Iterable[str]) -> tuple[str, ...]:
    """Return the allowed names without repetitions; raise an error for an unknown one."""
    names = tuple(dict.fromkeys([allow] if isinstance(allow, str) else allow))
    for name in names:
        if name not in ALLOWANCES:
            cure = f"allow one or more of {', '.join(ALLOWANCES)}"
            raise LowtideError("nothing of this name can be allowed", given=repr(name), cure=cure)
    return names
