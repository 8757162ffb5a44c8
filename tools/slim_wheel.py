"""Write the wheel `hedgerow-slim`: the files of the wheel `hedgerow` with other requirements.

pip cannot leave out requirements of a package, so the slim installation is a package of its own.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

NAME = "hedgerow-slim"
# Fixed, so that the same files give the same wheel. It is the oldest time that a zip can hold.
WRITTEN_AT = (2020, 2, 2, 0, 0, 0)


def write_slim_wheel(wheel: Path, folder: Path, requirements: Mapping[str, Sequence[str]]) -> Path:
    """Write the slim wheel next to the full one. `requirements` are those of each extra, and under
    `""` those of every installation."""
    slim = folder / wheel.name.replace("hedgerow-", "hedgerow_slim-", 1)
    record: list[str] = []
    with ZipFile(wheel) as source, ZipFile(slim, "w", ZIP_DEFLATED) as target:
        for name in source.namelist():
            if name.endswith(".dist-info/RECORD"):
                continue
            content = source.read(name)
            if name.endswith(".dist-info/METADATA"):
                content = _rewrite(content.decode(), requirements).encode()
            renamed = _rename(name)
            target.writestr(_describe(renamed), content)
            record.append(f"{renamed},sha256={_hash(content)},{len(content)}")
        path = _rename(next(each for each in source.namelist() if each.endswith("/RECORD")))
        target.writestr(_describe(path), "\n".join((*record, f"{path},,")) + "\n")
    return slim


def _rename(path: str) -> str:
    folder, slash, rest = path.partition("/")
    if folder.endswith(".dist-info"):
        return f"{folder.replace('hedgerow-', 'hedgerow_slim-', 1)}{slash}{rest}"
    return path


def _rewrite(text: str, requirements: Mapping[str, Sequence[str]]) -> str:
    head, blank, description = text.partition("\n\n")
    kept = [line for line in head.splitlines() if not line.startswith(_REPLACED)]
    kept.insert(1, f"Name: {NAME}")
    return "\n".join((*kept, *_format(requirements))) + blank + description


_REPLACED = ("Name:", "Requires-Dist:", "Provides-Extra:")


def _format(requirements: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for extra, needed in requirements.items():
        if extra:
            yield f"Provides-Extra: {extra}"
        for each in needed:
            yield f"Requires-Dist: {each}" + (f"; extra == '{extra}'" if extra else "")


def _describe(path: str) -> ZipInfo:
    info = ZipInfo(path, WRITTEN_AT)
    info.compress_type = ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
