"""The gap of two folders of Parquet, measured and closed by Spark: `mapInArrow` and two functions.

    python examples/spark_moments.py images.parquet texts.parquet -o corrected

Spark reads the rows, its workers make partial moments of every Arrow batch, and one small row for
each comes back. A correction is fitted to their sum, and the workers apply it: no row passes
through the driver.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, FloatType, StructField, StructType

from modgap import Calibrate, Correction
from modgap.engines import corrected_batch, moments_of, partial_moments
from modgap.moments import Moments, PairMoments

MOMENTS = (
    "n bigint, mean array<double>, scatter binary, unit_mean array<double>, unit_scatter binary"
)


def moments(rows: DataFrame, column: str) -> Moments:
    """The moments of a column of vectors, one partial row from each batch."""

    def partial(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield partial_moments(batch, column)

    return moments_of(rows.select(column).mapInArrow(partial, MOMENTS).toArrow())


def corrected(rows: DataFrame, correction: Correction, modality: str, column: str) -> DataFrame:
    """The rows with one more column, their corrected vectors."""

    def correct(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            done = corrected_batch(batch, correction, modality, column, "corrected")
            # Spark's arrays are lists of any length.
            place = done.schema.get_field_index("corrected")
            vectors = done.column(place).cast(pa.list_(pa.float32()))
            yield done.set_column(place, "corrected", vectors)

    vector = StructField("corrected", ArrayType(FloatType()))
    return rows.mapInArrow(correct, StructType([*rows.schema.fields, vector]))


def main() -> None:
    """Measure, fit and correct."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", help="Parquet with a column of vectors")
    parser.add_argument("texts")
    parser.add_argument("--column", default="embedding")
    parser.add_argument("-o", "--output", required=True, help="a new folder")
    given = parser.parse_args()

    spark = SparkSession.builder.appName("modgap").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sides = {"image": spark.read.parquet(given.images), "text": spark.read.parquet(given.texts)}
    found = PairMoments(*(moments(rows, given.column) for rows in sides.values()))
    print(f"{found.x.n:,} image rows and {found.y.n:,} text rows")
    print(f"gap distance {found.at_unit_length().gap_distance():.6f} at unit length")

    fitted = Calibrate().fit_moments(found).correction_
    fitted.save(f"{given.output}.safetensors")
    for name, rows in sides.items():
        corrected(rows, fitted, name, given.column).write.parquet(f"{given.output}/{name}")
    print(f"wrote {given.output}/image, {given.output}/text and {given.output}.safetensors")
    spark.stop()


if __name__ == "__main__":
    main()
