"""One authority with certificates for the devices that the suites use."""

import datetime as dt
from typing import Any

import pytest

from veilsum.agents.pki import Authority

HERE = ("localhost", "127.0.0.1")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: Any) -> Any:
    made = Authority.create(tmp_path_factory.mktemp("authority"))
    for name in ("p", "q", "r", "stranger"):
        made.issue(name, HERE)
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    made.issue("old", HERE, not_after=yesterday)
    return made


@pytest.fixture(scope="session")
def other_authority(tmp_path_factory: Any) -> Any:
    made = Authority.create(tmp_path_factory.mktemp("other"))
    made.issue("q", HERE)
    return made
