"""Requests and answers of the API as pydantic models, which check and document them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from modgap.core.results import plain
from modgap.corrections import Metric
from modgap.corrections.registry import Parameter
from modgap.serve.jobs import JobState

MAX_K = 100
MAX_LIMIT = 100
MAX_CONTAINS = 200
MAX_DIM = 65_536
MAX_ROW = 10**12

IndexKind = Literal["all", "one_side"]
Finite = Annotated[float, Field(allow_inf_nan=False)]
RowNumber = Annotated[int, Field(ge=0, le=MAX_ROW, description="Row number in the data, from 0.")]


class Taken(BaseModel):
    """The body of a request: no value is converted, and no unknown key is accepted."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(
        description="One sentence: what must hold, what came, what to do about it.",
        examples=["k must be at most 100, got 500."],
    )


class Health(BaseModel):
    """The server runs."""

    status: Literal["ok"] = "ok"


# -- the data -------------------------------------------------------------------------------------


class MethodInfo(BaseModel):
    """One kind of correction that can be fitted here."""

    name: str = Field(examples=["Shift"])
    summary: str
    needs_pairs: bool
    available: bool = Field(description="Whether it can be fitted on this data.")
    parameters: list[Parameter]


class ModalityInfo(BaseModel):
    """One modality of the data."""

    name: str = Field(examples=["image"])
    rows: int = Field(description="Rows of the data.")
    live_rows: int = Field(description="Rows that the live index holds.")
    captions: bool
    ids: bool
    thumbnails: bool


class TermInfo(BaseModel):
    """What a word or a number on the page means."""

    label: str
    definition: str
    source: str = Field(description="The paper it comes from; empty where there is none.")


class DataInfo(BaseModel):
    """The data that is served."""

    version: str = Field(description="The version of modgap.")
    names: list[str] = Field(examples=[["image", "text"]])
    modalities: list[ModalityInfo]
    dim: int
    paired: bool = Field(description="Whether it is known which rows match.")
    queries: list[str] = Field(description="The query modalities in the metrics.")
    metric: Metric = Field(description="How the index ranks the rows as they are.")
    model: str | None
    seed: int
    sampling: list[str] = Field(description="What was sampled, in sentences.")
    metrics: dict[str, str] = Field(description="What each metric of a correction means.")
    terms: dict[str, TermInfo] = Field(description="What the page's words and numbers mean.")
    methods: list[MethodInfo]
    why_no_fit: str | None = Field(
        description="Why nothing can be fitted, too few rows for instance; null where it can."
    )


class ReportStatus(BaseModel):
    """How far the report is."""

    detail: str = Field(description="The same in a sentence.")
    state: JobState
    step: str | None
    done: int
    total: int


class ReportDocument(BaseModel):
    """The page's document. It has more keys than those listed here."""

    model_config = ConfigDict(extra="allow")

    schema_: str = Field(alias="schema", examples=["modgap/report/2"])
    live: Literal[True]


class RowItem(BaseModel):
    """A row of the data, with its caption, id and image."""

    modality: str = Field(examples=["text"])
    row: int
    caption: str | None
    id: str | None
    thumbnail: str | None = Field(description="Address of its image, where there may be one.")


class ItemPage(BaseModel):
    """Some rows of one modality."""

    total: int = Field(description="How many rows of the live index there are to page through.")
    offset: int
    items: list[RowItem]


# -- search ---------------------------------------------------------------------------------------


class SearchRequest(Taken):
    """Search with a row of the data, which is left out of its own results, or with a vector."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["row"]}, {"required": ["vector"]}]}
    )

    modality: str = Field(
        max_length=200, description="The modality of the query.", examples=["text"]
    )
    row: RowNumber | None = None
    vector: list[Finite] | None = Field(
        None,
        min_length=1,
        max_length=MAX_DIM,
        description="As many numbers as the data has columns, not all zero.",
    )
    k: int = Field(10, ge=1, le=MAX_K, description="How many rows to find.")
    correction: str | None = Field(
        None, max_length=64, description="A correction to search with beside the rows as they are."
    )
    at_most: Finite | None = Field(
        None,
        gt=0,
        description="Leave out corrected results with more expected wrong ones than this; for a "
        "correction that merges by them.",
    )
    index: IndexKind = Field(
        "all",
        description="all: every row. one_side: every group as one of its modalities only, the "
        "query's as the other one, as in the mixed metrics; needs pairs.",
    )


class SearchHit(RowItem):
    """One row found."""

    score: float = Field(
        description="Larger is nearer: the cosine, the inner product, or minus the squared "
        "Euclidean distance, by the metric of the search."
    )
    match: bool | None = Field(
        description="Whether it is of the query's group; null where that is not known."
    )
    expected_wrong: float | None = Field(
        description="How many wrong results to expect that are at least as good; null where the "
        "results are not merged by it."
    )


class SearchAnswer(BaseModel):
    """The nearest rows of both modalities in one index, raw beside corrected."""

    query: RowItem | None = Field(description="The row asked with; null for a vector.")
    metric: Metric
    raw: list[SearchHit]
    corrected_metric: Metric | None
    corrected_demands: str | None = Field(
        description="What the correction demands for such queries, in one sentence."
    )
    corrected: list[SearchHit] | None
    chance: float | None = Field(
        description="The share of queries without a match whose best corrected result looks as "
        "good; null where the results are not merged by expected wrong ones."
    )
    least: float | None = Field(
        description="The least number of expected wrong results that the bank tells."
    )


# -- corrections and jobs -------------------------------------------------------------------------


class FitRequest(Taken):
    """A correction to fit and evaluate."""

    method: str = Field(max_length=64, examples=["Shift"])
    parameters: dict[str, Finite | str] = Field(
        default_factory=dict,
        max_length=16,
        description="Those that differ from their defaults.",
        examples=[{"amount": 0.4}],
    )


class JobStarted(BaseModel):
    """Work was queued."""

    job: str = Field(description="Its identifier, to be asked for at /api/jobs/{id}.")


class IntervalValues(BaseModel):
    """A number and its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None


class MetricScore(BaseModel):
    """A metric and its change against the rows as they are."""

    value: IntervalValues
    change: IntervalValues | None


class CorrectionScores(BaseModel):
    """Every metric of one correction on held-out rows."""

    metrics: dict[str, MetricScore]
    goal: MetricScore


class CorrectionDemands(BaseModel):
    """What the use of a correction demands."""

    queries: list[str] = Field(description="The modalities whose queries it serves.")
    columns: list[int] = Field(description="Columns before and after.", examples=[[512, 512]])
    metric: Metric = Field(description="What to rank by.")
    demands: dict[str, str] = Field(
        description="Columns, documents, queries and metric, each in words."
    )
    sentence: str = Field(description="The same in one sentence.")
    commands: list[str] = Field(description="What to run next, with its file.")


class FittedCorrection(BaseModel):
    """A fitted correction and its metrics."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str = Field(examples=["Shift(amount=0.4)"])
    metric: Metric = Field(description="The metric its rankings are meant for.")
    recommended: bool = Field(description="Whether it is the one of the report.")
    label: str | None = Field(description="What is to be known where it could not be judged.")
    queries: list[str] = Field(description="The query modalities in its metrics.")
    demands: list[CorrectionDemands] = Field(
        description="What it demands; one entry for each file where every query modality has its "
        "own, that of the metrics first."
    )
    about: Annotated[dict[str, Any], BeforeValidator(plain)] = Field(
        description="Method, parameters and what it was fitted on."
    )
    n_groups: int = Field(description="Groups that confirm it; without pairs, rows of each side.")
    raw: Annotated[CorrectionScores, BeforeValidator(plain)] = Field(
        description="The rows as they are."
    )
    corrected: Annotated[CorrectionScores, BeforeValidator(plain)]


class CorrectionList(BaseModel):
    """The corrections that can be searched with, the recommended one first."""

    corrections: list[FittedCorrection]
    none_recommended: str | None = Field(
        description="Why none of them is recommended, in one sentence; null where one is.",
        examples=["The report is being made, and may recommend a correction."],
    )


class JobStatus(BaseModel):
    """The state of a job."""

    id: str
    title: str = Field(examples=["Shift(amount=0.4)"])
    state: JobState
    step: str | None = Field(examples=["evaluating Shift(amount=0.4)"])
    done: int
    total: int
    result: FittedCorrection | None
    error: str | None = Field(description="Why it failed, in one sentence.")
