"""A slow, obvious version of expected wrong results, from docs/reference/definitions.md.

Plain loops in float64; nothing here shares code with the library.
"""

from __future__ import annotations

import math


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def places_of(n_documents):
    return 30 if n_documents >= 60 else max(6, n_documents // 2)


def level_and_slope(scores, places):
    """The r-th best score, and how fast scores rise above it from the fourth place on."""
    best = sorted(scores, reverse=True)[:places]
    level = best[-1]
    ranks = range(4, places + 1)
    rise = mean(best[i - 1] - level for i in ranks)
    return level, rise / mean(math.log(places / (i - 0.5)) for i in ranks)


def heights(scores, places, usual):
    """U of every score of one query."""
    level, slope = level_and_slope(scores, places)
    unit_height = math.sqrt(max(slope, 0.01 * usual) * usual)
    return [(s - level) / unit_height for s in scores]


def signals(scores, places):
    """Best score, level, and logarithm of the slope."""
    level, slope = level_and_slope(scores, places)
    return max(scores), level, math.log(slope)


def hubness(document, bank, k):
    return mean(sorted((float(q @ document) for q in bank), reverse=True)[:k])


def bank_scores(documents, bank, weight, k, own):
    """The scores of each bank query; its own documents and its own hubness are left out."""
    found = []
    for i, query in enumerate(bank):
        line = []
        for j, document in enumerate(documents):
            if own(i, j):
                continue
            others = [q for m, q in enumerate(bank) if m != i and not own(m, j)]
            line.append(float(query @ document) - weight * hubness(document, others, k))
        found.append(line)
    return found


class SlowBackground:
    """What the bank found in one list, from the scores of each query on every document."""

    def __init__(self, lines, n_documents, matched=None):
        self.places = places_of(n_documents)
        self.b = len(lines)
        slopes = [level_and_slope(line, self.places)[1] for line in lines]
        self.usual = math.exp(mean(math.log(slope) for slope in slopes if slope > 0))
        held = [sorted(heights(line, self.places, self.usual), reverse=True) for line in lines]
        self.every = sorted((u for line in held for u in line), reverse=True)
        rest = [line[matched[i] if matched else 0 :] for i, line in enumerate(held)]
        self.unmatched = sorted((u for line in rest for u in line), reverse=True)
        self.columns = list(zip(*(signals(line, self.places) for line in lines), strict=True))
        self.surprises = [self.surprise(line) for line in lines]

    def log_e(self, height, known):
        """Between two known heights log E is a straight line, and above the k-th as well."""
        k = max(5, self.b // 10)
        at = [math.log((place + 1.5) / self.b) for place in range(len(known))]
        ten = 10 * self.b - 1
        if height > known[k - 1]:
            slope = (at[k - 1] - at[ten]) / (known[k - 1] - known[ten])
            return at[k - 1] + slope * (height - known[k - 1])
        above = [place for place, u in enumerate(known) if u >= height]
        last = above[-1]
        if known[last] == height or last + 1 == len(known):
            return at[last]
        share = (known[last] - height) / (known[last] - known[last + 1])
        return at[last] + share * (at[last + 1] - at[last])

    def expected(self, height):
        both = [self.log_e(height, self.every), self.log_e(height, self.unmatched)]
        return math.exp(mean(both))

    def surprise(self, scores):
        """How unlike the best result of a query without a match."""
        deviations = []
        for value, column in zip(signals(scores, self.places), self.columns, strict=True):
            spread = math.sqrt(mean((x - mean(column)) ** 2 for x in column))
            deviations.append((value - mean(column)) / spread)
        best, level, slope = deviations
        e = self.expected(max(heights(scores, self.places, self.usual)))
        return 5 * best + 3 * min(level, 0) + 2 * slope - math.log(e)

    def chance(self, scores):
        """The share of the bank's queries that look as good."""
        above = sum(one >= self.surprise(scores) for one in self.surprises)
        return (above + 0.5) / (self.b + 1)
