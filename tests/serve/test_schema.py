"""Made-up requests over the whole API: never a server error, always what the schema says."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
pytest.importorskip("schemathesis.checks")

from modgap.serve import Explorer, Jobs  # noqa: E402
from serving import PNG, make_client, make_data  # noqa: E402

_CLIENT = make_client(
    Explorer(make_data(pictures=lambda row: PNG if row < 5 else None)),
    jobs=Jobs(waiting=3),
    hosts=None,
)
_CLIENT.app.state.document.wait(60)
# Refused for its length before anything else is looked at is refused, too.
_REFUSED = [400, 403, 404, 405, 413, 414, 422]
schema = schemathesis.openapi.from_asgi(
    "/openapi.json",
    _CLIENT.app,
    config=schemathesis.Config.from_dict(
        {"checks": {"negative_data_rejection": {"expected-statuses": _REFUSED}}}
    ),
)


@schema.parametrize()
@settings(
    max_examples=int(os.environ.get("MODGAP_FUZZ", "15")),
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_conform_to_the_schema(case):
    # What the data allows, rows and columns for instance, the schema cannot say.
    case.call_and_validate(excluded_checks=[schemathesis.checks.positive_data_acceptance])
