"""``modgap manifest``: the shards of a dataset with rows, dtypes, sizes and checksums."""

from __future__ import annotations

from pathlib import Path


def manifest(
    path: str,
    output: Path | None = None,
    check: bool = False,
) -> None:
    """List the shards of a dataset with their rows, dtypes, sizes and checksums.

    A folder with a manifest in it is compared with that whenever it is opened, and one of a web
    server can be read by it. A run that was stopped goes on where it was.

    Example: modgap manifest embeddings
    """
    from modgap.cli.outputs import check_file, tidy_when_terminated
    from modgap.cli.progress import steps
    from modgap.cli.show import out
    from modgap.io import write_manifest
    from modgap.io.manifest import kept_manifest, manifest_place

    if check:
        with steps(rate=True) as step:
            found = kept_manifest(path, output)
            found.check(path, progress=step)
        out.print(f"{found.words}: all as the manifest says")
        return
    target = manifest_place(path) if output is None else output
    check_file(target)
    with steps(rate=True) as step, tidy_when_terminated():
        found = write_manifest(path, target, progress=step)
    out.print(f"wrote {target}: {found.words}", markup=False, soft_wrap=True)
