"""site.toml: careless files get errors with their line, key and remedy; no secret is taken or shown."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.errors import FleetError
from veilsum.fleet.config import FleetAddress, read_site_config, site_config, write_site_toml
from veilsum.fleet.consent import Policy

KEY = "5d" * 32
GOOD = f"""name = "north"

[data]
table = "readings.csv"

[budget]
epsilon = 3
per = "month"

[[fleet]]
address = "/mnt/fleet"
authority = "{KEY}"

[[fleet]]
address = "s3://bucket/fleet"
authority = "{KEY}"

[policy]
kinds = ["mean"]
columns = ["kwh"]
max_epsilon = 1
per = "day"

[site]
log = "north.log"
"""


def test_a_good_file_says_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(GOOD)
    found = read_site_config(path)
    assert found.name == "north"
    assert found.data == {"table": "readings.csv"}
    assert found.path("readings.csv") == tmp_path / "readings.csv"
    assert (found.budget.epsilon, str(found.budget.unit)) == (3.0, "month")
    assert found.fleet("s3://bucket/fleet") == FleetAddress("s3://bucket/fleet", KEY)
    assert found.policy == Policy(("mean",), ("kwh",), 1.0, "day")
    assert (found.log, found.database) == (tmp_path / "north.log", tmp_path / "site.db")
    with pytest.raises(FleetError, match="2 fleets; say which: /mnt/fleet, s3"):
        found.fleet()
    with pytest.raises(FleetError, match=r'no fleet at /mnt/flet; .*did you mean "/mnt/fleet"'):
        found.fleet("/mnt/flet")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "north"', 'nme = "north"', 'line 1: nme: there is no such key.*did you mean "name"'),
        ('name = "north"', "name = 3", "line 1: name: must be text; found 3"),
        ('name = "north"', 'name = ""', "line 1: name: must be text that is not empty"),
        ('name = "north"', 'name = "no/rth"', 'line 1: name: found "no/rth"; allowed: letters'),
        ("[data]", "[dta]", 'line 3: dta: there is no such key.*did you mean "data"'),
        ('table = "readings.csv"', "", "line 3: data: says nothing; add its source"),
        ("epsilon = 3\n", "", r"line 6: budget.epsilon: missing; add epsilon = ... to \[budget\]"),
        ("epsilon = 3\n", 'epsilon = "3"\n', "line 7: budget.epsilon: must be a number; found '3'"),
        ("epsilon = 3\n", "epsilon = true\n", "line 7: budget.epsilon: must be a number; found True"),
        ("epsilon = 3\n", "epsilon = -1\n", "line 7: budget.epsilon: epsilon must be .* above 0; found -1"),
        ("epsilon = 3\n", "epsilon = inf\n", "line 7: budget.epsilon: epsilon must be .* above 0; found inf"),
        ("epsilon = 3\n", "epsilon = 3\ndelta = 1\n", "line 8: budget.delta: delta must be a probability"),
        ("epsilon = 3\n", "epsilon = 3\ndleta = 0.1\n", 'line 8: budget.dleta: .*did you mean "delta"'),
        ('per = "month"', 'per = "monthly"', "line 8: budget.per: per must be"),
        ('per = "month"', "per = 3", "line 8: budget.per: must be text; found 3"),
        ("[[fleet]]", "[fleet]", r"two brackets|not valid TOML"),
        ('address = "/mnt/fleet"\n', "", r"line 10: fleet.0.address: missing; .* \[\[fleet\]\]"),
        ('address = "/mnt/fleet"', 'adress = "/mnt/fleet"', 'fleet.0.adress: .*did you mean "address"'),
        (f'{KEY}"\n\n[policy]', '5d"\n\n[policy]', "line 16: fleet.1.authority: .*64 hexadecimal"),
        ('address = "s3://bucket/fleet"', 'address = "/mnt/fleet"', "one address twice"),
        ('kinds = ["mean"]', 'kinds = ["men"]', 'line 19: policy.kinds: found "men"; .*did you mean "mean"'),
        ('kinds = ["mean"]', "kinds = 3", "line 19: policy.kinds: must be a list of texts; found 3"),
        ('kinds = ["mean"]\n', "", r"line 18: policy.kinds: missing; add kinds = ... to \[policy\]"),
        ("max_epsilon = 1\n", "", "line 18: policy.max_epsilon: missing"),
        ("max_epsilon = 1\n", "max_epsilon = 0\n", "line 21: policy.max_epsilon: max_epsilon must be"),
        ('per = "day"', 'per = "dy"', 'line 22: policy.per: found "dy"; .*did you mean "day"'),
        ('per = "day"', "min_records = 0.5", "line 22: policy.min_records: must be a whole number"),
        ('per = "day"', 'protocols = ["pol"]', 'line 22: policy.protocols: .*did you mean "pool"'),
        ('log = "north.log"', "log = 1", "line 25: site.log: must be text; found 1"),
        ("[site]\n", "site = 3\n#", "site"),
        ('log = "north.log"', 'lg = "north.log"', "line 25: site.lg: .*; allowed: log, database"),
        ('name = "north"', 'name = "north', "line 1: not valid TOML"),
    ],
)  # fmt: skip
def test_a_careless_file_gets_its_line_its_key_and_what_to_do(
    old: str, new: str, said: str
) -> None:
    assert GOOD.count(old) >= 1
    with pytest.raises(FleetError, match=f"(?s){said}") as problem:
        site_config(GOOD.replace(old, new, 1), "site.toml")
    assert "site.toml" in str(problem.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(FleetError) as problem:
        site_config("nme = 1\n[data]\n[bugdet]\n", "site.toml")
    said = str(problem.value).splitlines()
    assert len(said) >= 5
    assert any("fleet: missing" in line for line in said)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "north"', 'name = "north"\npassword = "hunter2"'),
        ("[data]", '[data]\npassword = "hunter2"'),
        ("[data]", '[data]\nsecret_access_key = "hunter2"'),
        ("[data]", '[data.store]\ntoken = "hunter2"\n[data]'),
        ('address = "/mnt/fleet"', 'address = "https://ada:hunter2@cloud.example/fleet"'),
        ('address = "/mnt/fleet"', 'address = "https://blob.example/f?sig=hunter2"'),
        ("[[fleet]]", '[[fleet]]\nkey = "hunter2"'),
        ('table = "readings.csv"', 'sql = "postgresql://ada:hunter2@host/db"'),
        ("[site]", '[site]\nprivate_key = "hunter2"'),
    ],
)
def test_a_secret_is_refused_and_not_shown(old: str, new: str) -> None:
    with pytest.raises(FleetError, match="a secret does not belong into this file") as problem:
        site_config(GOOD.replace(old, new, 1), "site.toml")
    assert "hunter2" not in str(problem.value)


def test_files_and_variables_that_have_a_secret_may_be_named_and_columns_may_be_keys() -> None:
    data = 'key = "id"\npassword_file = "pw.txt"\ntoken_env = "TOKEN"\nsql = "postgresql://ada@host/db"'
    found = site_config(GOOD.replace('table = "readings.csv"', data), "site.toml")
    assert found.data["key"] == "id"


@given(
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    address=st.text(min_size=1, max_size=30).filter(lambda t: t.strip() and not set(t) & set("\0@=")),
    epsilon=st.floats(1e-6, 1e6),
    asked=st.booleans(),
)  # fmt: skip
def test_what_join_writes_is_read_back(
    name: str, address: str, epsilon: float, asked: bool
) -> None:
    from veilsum.fleet.config import site_toml

    policy = (
        Policy(("mean", "count"), ('a "b"', "c"), 0.5, "month", 10, askers=("ada",))
        if asked
        else None
    )
    text = site_toml(name, address, KEY, "readings.csv", epsilon, "reading", policy)
    tomllib.loads(text)
    found = site_config(text, "site.toml")
    assert (found.name, found.fleets, found.policy) == (name, (FleetAddress(address, KEY),), policy)
    assert found.budget.epsilon == epsilon
    assert len(text.splitlines()) < 30


def test_join_writes_a_file_once_and_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    given = {"name": "north", "authority": KEY, "table": "readings.csv", "epsilon": 3.0}
    with pytest.raises(FleetError, match="secret"):
        write_site_toml(path, address="https://a:b@c/d", **given)  # type: ignore[arg-type]
    assert not path.exists()
    found = write_site_toml(path, address="/mnt/fleet", **given)  # type: ignore[arg-type]
    assert found.fleet().address == "/mnt/fleet"
    assert read_site_config(path).fleets == found.fleets
    with pytest.raises(FleetError, match="is there already"):
        write_site_toml(path, address="/mnt/fleet", **given)  # type: ignore[arg-type]


def test_who_only_asks_has_no_data(tmp_path: Path) -> None:
    found = write_site_toml(
        tmp_path / "ada.toml",
        name="ada",
        address="/mnt/fleet",
        authority=KEY,
        table=None,
        epsilon=1.0,
    )
    assert not found.data
    assert found.policy is None
    assert "[data]" not in (tmp_path / "ada.toml").read_text()


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"is no site: it has no site\.toml"):
        read_site_config(tmp_path / "site.toml")
