"""The corrections that can be searched with: those fitted here, and the recommended one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from modgap._validate import InputError
from modgap.corrections import Correction
from modgap.diagnosis import Diagnosis
from modgap.evaluation import Scores
from modgap.reports.fix import correction_bytes, demanded, not_judged
from modgap.serve.models import FittedCorrection

RECOMMENDED = "recommended"


class Unknown(InputError):
    """Something was asked for by a name that nothing has."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A correction and its metrics on rows it has not seen, beside those of the raw rows.

    ``corrections`` has the one to search with for queries of each modality: the same for all, or,
    where a correction serves one, as many as were fitted. The metrics are those of the modalities
    ``queries``. ``label`` says it where nothing was judged.
    """

    name: str
    corrections: Mapping[str, Correction]
    queries: tuple[str, ...]
    n_groups: int
    raw: Scores
    corrected: Scores
    label: str | None = None

    @property
    def correction(self) -> Correction:
        """The one whose metrics these are."""
        return self.corrections[self.queries[0]]

    def serving(self, modality: str) -> Correction:
        """The correction for queries of a modality; refused in words where there is none."""
        found = self.corrections.get(modality, self.correction)
        found.check_serves(modality)
        return found

    def files(self) -> dict[str, Correction]:
        """Every correction once, by the name of its file; that of the metrics first."""
        different = list(dict.fromkeys([self.correction, *self.corrections.values()]))
        kinds = [[self.name, *(c.queries if len(different) > 1 else ())] for c in different]
        words = ["-".join(_plain(word) for word in kind) for kind in kinds]
        if len(set(words)) < len(words):  # what tells the names apart is nothing for a file's name
            words = [f"{word}-{place}" for place, word in enumerate(words, 1)]
        return {f"correction-{w}.safetensors": c for w, c in zip(words, different, strict=True)}


def _plain(word: str) -> str:
    """A word as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", word).strip("-")


class FittedCorrections:
    """Corrections by identifier.

    At most ``kept`` are remembered: the oldest goes first, the recommended one never. ``forget``
    is called with the identifier of each that goes.
    """

    def __init__(self, kept: int, forget: Callable[[str], None]) -> None:
        self._kept, self._forget = kept, forget
        self._fitted: dict[str, Fitted] = {}
        self._lock = threading.Lock()

    def add(self, identifier: str, fitted: Fitted) -> None:
        """Remember a correction; an earlier one of the same name goes."""
        with self._lock:
            self._fitted[identifier] = fitted
            others = [key for key in self._fitted if key != RECOMMENDED]
            again = [
                key
                for key in others
                if identifier not in (RECOMMENDED, key) and self._fitted[key].name == fitted.name
            ]
            gone = [*again, *[key for key in others if key not in again][: -self._kept]]
            for key in gone:
                del self._fitted[key]
        for key in gone:
            self._forget(key)

    def recommend(
        self, diagnosis: Diagnosis, others: Mapping[str, Correction] | None = None
    ) -> None:
        """Add the correction that a diagnosis recommends, with the metrics it has there.

        ``others`` are the same for queries of other modalities, where it does not serve those.
        """
        correction = diagnosis.correction
        if correction is None or diagnosis.recommended is None:
            return
        trials = {trial.method: trial.confirm for trial in diagnosis.trials}
        fitted = Fitted(
            name=diagnosis.recommended,
            corrections={**(others or {}), **dict.fromkeys(correction.queries, correction)},
            queries=diagnosis.queries,
            n_groups=diagnosis.n_groups["confirm"],
            raw=diagnosis.raw,
            corrected=trials[diagnosis.recommended],
            label=not_judged(diagnosis),
        )
        self.add(RECOMMENDED, fitted)

    def listed(self) -> dict[str, Fitted]:
        """All of them: the recommended one first, the others by age."""
        with self._lock:
            return dict(sorted(self._fitted.items(), key=lambda entry: entry[0] != RECOMMENDED))

    def get(self, identifier: str) -> Fitted:
        """A correction by its identifier."""
        found = self.listed().get(identifier)
        if found is None:
            raise Unknown(
                f"There is no correction {identifier!r}. Newer ones may have replaced it; "
                "fit it again."
            )
        return found

    def file(self, identifier: str, queries: str | None = None) -> tuple[str, bytes]:
        """A correction as a file: a plain name for it, and its bytes.

        It is the one for queries of a modality, by default the one whose metrics are shown.
        """
        fitted = self.get(identifier)
        wanted = fitted.correction if queries is None else fitted.serving(queries)
        [name] = [name for name, one in fitted.files().items() if one is wanted]
        return name, correction_bytes(wanted)


def describe(identifier: str, fitted: Fitted) -> FittedCorrection:
    """A correction and its metrics, as the API gives them."""
    shown = {
        "id": identifier,
        "name": fitted.name,
        "metric": fitted.correction.metric,
        "recommended": identifier == RECOMMENDED,
        "label": fitted.label,
        "queries": fitted.queries,
        "demands": [demanded(one, file) for file, one in fitted.files().items()],
        "about": fitted.correction.about,
        "n_groups": fitted.n_groups,
        "raw": fitted.raw,
        "corrected": fitted.corrected,
    }
    return FittedCorrection.model_validate(shown)
