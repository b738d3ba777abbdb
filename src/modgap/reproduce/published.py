"""What the papers print for tasks, beside what is measured on other data."""

from __future__ import annotations

from modgap.evaluation.tasks import Published


def liang_zero_shot() -> tuple[Published, ...]:
    """Zero-shot accuracy at the gap that is best on the same images."""
    from modgap.reproduce.liang2022 import PAPER

    where = "Liang et al. 2022, table 1"
    return tuple(
        Published(
            float(after),
            f"{name} at its best gap, {direction} than the original, where it is {before:g}",
            where,
        )
        for name, (before, after, direction) in PAPER.table("table1").rows.items()
    )


def liang_denigration(harm: str = "sum") -> tuple[Published, ...]:
    """Share of FairFace's faces taken for crime or non-human by CLIP ViT-B/32, group by group."""
    from modgap.reproduce.liang2022 import PAPER

    found = []
    for name in ("table2", "table4"):
        table = PAPER.table(name)
        for row, shares in table.rows.items():
            printed = dict(zip(table.columns, shares, strict=True))
            share = sum(printed.values()) if harm == "sum" else printed[harm]
            what = "crime and non-human added" if harm == "sum" else harm
            where = f"Liang et al. 2022, table {name[-1]}"
            found.append(Published(round(float(share), 3), f"{row}: {what}", where))
    return tuple(found)


def yaras_pair_matching() -> tuple[Published, ...]:
    """Accuracy on MMVP-VLM of models trained on MS-COCO, each the mean of three trainings."""
    from modgap.reproduce.yaras2024 import PAPER

    table = PAPER.table("table1")
    gap, accuracy = table.columns.index("modality gap"), table.columns.index("MMVP-VLM")
    return tuple(
        Published(
            float(row[accuracy]) / 100,
            f"MMVP-VLM, {name} (modality gap {row[gap]:g})",
            "Yaras et al. 2024, table 1",
        )
        for name, row in table.rows.items()
    )
