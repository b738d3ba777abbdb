"""FairFace: faces with age, gender and race, balanced over seven groups.

Published with Kärkkäinen and Joo 2021, *FairFace: Face Attribute Dataset for Balanced Race, Gender,
and Age* (arXiv 1908.04913). Its folder holds fairface_label_train.csv and fairface_label_val.csv,
with the columns file, age, gender, race and service_test, and the images, train/1.jpg and so on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from modgap._results import Brief
from modgap._validate import check_choice
from modgap.io.images import ImageFolder
from modgap.io.items import Item, Items
from modgap.io.task_files import check_home, check_once, images_home, rows_of, the_file

_DATA_SET = "FairFace"
_FILE, _GROUPS = "file", ("age", "gender", "race")


@dataclass(frozen=True, eq=False)
class FairFace(Brief):
    """Faces, and the age, gender and race of each as the table writes them."""

    source: str
    images: Items
    age: tuple[str, ...]
    gender: tuple[str, ...]
    race: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)


def open_fairface(
    path: str | os.PathLike[str],
    *,
    split: str = "val",
    images: str | os.PathLike[str] | None = None,
) -> FairFace:
    """Read FairFace as it is published.

    Parameters
    ----------
    path : path
        The folder with fairface_label_val.csv and fairface_label_train.csv.
    split : {"val", "train"}
        Which of them.
    images : path, optional
        The folder with the folders train and val, by default the same, or a folder in it that was
        unpacked from a published archive (fairface-img-margin…).
    """
    check_choice(split, "split", ("val", "train"))
    file = the_file(Path(path), f"fairface_label_{split}.csv", _DATA_SET)
    rows = rows_of(file, (_FILE, *_GROUPS))
    here = file.parent
    near = [here, *sorted(here.glob("fairface-img-margin*")), here / "images"]
    home = images_home(check_home(images), near, rows[0][_FILE], "Faces")
    folder = ImageFolder(home)
    names = [row[_FILE] for row in rows]
    check_once(names, file)
    items = [
        Item(
            row[_FILE],
            (),
            split,
            folder.reader(row[_FILE], file),
            None,
            {name: value for name, value in row.items() if name != _FILE},
        )
        for row in rows
    ]
    age, gender, race = (tuple(row[name] for row in rows) for name in _GROUPS)
    return FairFace(str(file), Items(str(file), items), age, gender, race)
