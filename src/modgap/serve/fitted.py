"""The corrections that can be searched with: those fitted here, and the recommended one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from modgap._validate import InputError
from modgap.corrections import Correction
from modgap.diagnosis import Diagnosis
from modgap.evaluation import Scores
from modgap.reports.fix import correction_bytes
from modgap.serve.models import FittedCorrection

RECOMMENDED = "recommended"


class Unknown(InputError):
    """Something was asked for by a name that nothing has."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A correction and its metrics on rows it has not seen, beside those of the raw rows."""

    name: str
    correction: Correction
    n_groups: int
    raw: Scores
    corrected: Scores


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

    def recommend(self, diagnosis: Diagnosis) -> None:
        """Add the correction that a diagnosis recommends, with the metrics it has there."""
        if diagnosis.correction is None or diagnosis.recommended is None:
            return
        trials = {trial.method: trial.confirm for trial in diagnosis.trials}
        fitted = Fitted(
            name=diagnosis.recommended,
            correction=diagnosis.correction,
            n_groups=diagnosis.n_groups["confirm"],
            raw=diagnosis.raw,
            corrected=trials[diagnosis.recommended],
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

    def file(self, identifier: str) -> tuple[str, bytes]:
        """A correction as a file: a plain name for it, and its bytes."""
        fitted = self.get(identifier)
        word = re.sub(r"[^A-Za-z0-9_.=-]+", "-", fitted.name).strip("-")
        return f"correction-{word}.safetensors", correction_bytes(fitted.correction)


def describe(identifier: str, fitted: Fitted) -> FittedCorrection:
    """A correction and its metrics, as the API gives them."""
    shown = {
        "id": identifier,
        "name": fitted.name,
        "metric": fitted.correction.metric,
        "recommended": identifier == RECOMMENDED,
        "about": fitted.correction.about,
        "n_groups": fitted.n_groups,
        "raw": fitted.raw,
        "corrected": fitted.corrected,
    }
    return FittedCorrection.model_validate(shown)
