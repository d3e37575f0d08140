"""The page for the one who signs: its numbers are the guarantee's, and no reading is in it."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum._numbers import upward
from veilsum.auditing import exact as problem_audits
from veilsum.cli.app import app
from veilsum.errors import AgentError, ScenarioError
from veilsum.front.odds import in_words
from veilsum.privacy import Status
from veilsum.reports import SignOffTerms, sign_off
from veilsum.reports.claims import claims
from veilsum.reports.objections import Objection, objections
from veilsum.reports.sign_off import attacks, page
from veilsum.reports.terms import Mode
from veilsum.scenario import Scenario, template

ROOT = Path(__file__).resolve().parents[2]
READINGS = ("4.24242", "7.13131", "2.72727", "6.36363", "1.61616")
BASE = """\
name = "ward"
title = "Mean dose <b>on</b> a ward"
[network]
graph = "ring:5"
weights = "lazy-metropolis"
[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 10.0]
unit = "mg"
[signals]
file = "doses.csv"
[privacy]
protect = "signal"
epsilon = 0.5
radius = 2.0
[algorithm]
name = "learn"
rounds = 40
[agents]
every = "6h"
[report]
purpose = "stock & safety"
radius = "one tablet"
[[variant]]
name = "local"
[[variant]]
name = "network"
privacy.protect = "network"
algorithm.name = "learn-network"
[[variant]]
name = "masked"
privacy = { mode = "masked", epsilon = 1.0, colluders = 1, absent = 1, attempts = 2 }
algorithm.name = "masked-learn"
[[variant]]
name = "open"
privacy.protect = "nothing"
"""
AGENT = """\
name = "0"
scenario = "ward.toml"
listen = ["tls/127.0.0.1:7447"]
[keys]
folder = "keys"
[ledger]
path = "0.ledger"
[budget]
epsilon = 1.0
{budget}
[readings]
csv = "doses.csv"
"""


def scenario(text: str = BASE) -> Scenario:
    return Scenario.parse(text, "ward.toml", name="ward")


def words(page: str) -> str:
    """The text of a page in one line, tags left out."""
    import html

    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.split("</style>")[1])).split())


@pytest.mark.parametrize("variant", ["local", "network", "masked", "open"])
def test_no_reading_is_opened_and_none_is_on_the_page(variant: str, tmp_path: Path) -> None:
    absent = sign_off(Scenario.parse(BASE, "ward.toml", folder=tmp_path / "nowhere"), variant)
    rows = "".join(f"{k},{value}\n" for k, value in enumerate(READINGS))
    (tmp_path / "doses.csv").write_text(f"agent,value\n{rows}")
    (tmp_path / "ward.toml").write_text(BASE)
    present = sign_off(Scenario.load(tmp_path / "ward.toml"), variant, audit=True, trials=2000)
    assert not [value for value in READINGS if value in absent + present]
    assert str(tmp_path) not in absent + present
    without = re.compile(r'<section id="audit">.*?</section>', re.DOTALL)
    assert without.sub("", absent) == without.sub("", present), "the file changes nothing"


def test_the_search_for_readings_finds_one_that_leaks() -> None:
    leaky = BASE.replace('"one tablet"', f'"as in the reading {READINGS[0]}"')
    assert READINGS[0] in sign_off(scenario(leaky), "local")


@pytest.mark.parametrize("variant", ["local", "network", "masked", "open"])
def test_the_page_is_whole_escaped_and_fetches_nothing(variant: str) -> None:
    page = sign_off(scenario(), variant)
    assert "<b>on</b>" not in page
    assert "Mean dose &lt;b&gt;on&lt;/b&gt; a ward" in page
    assert "<script" not in page
    assert not re.findall(r"(?:src|href)=|url\(|@import| style=", page)
    assert "default-src 'none'" in page
    assert "unsafe-inline" not in page
    for part in ("collected", "leaves", "who", "epsilon", "radius", "assumed", "totals", "claims",
                 "audit", "versions", "signature"):  # fmt: skip
        assert f'<section id="{part}">' in page
    assert page == sign_off(scenario(), variant), "the same terms give the same bytes"


def test_odds_radius_and_unit_of_local_noise() -> None:
    said = words(sign_off(scenario(), "local"))
    assert math.exp(0.5) < 1.65
    assert "at most 1.65 times more likely" in said
    assert "differ by at most 2 mg" in said
    assert "4 mg 1 at most 2.72 times" in said, "twice the radius costs twice epsilon"
    assert "one tablet" in said
    assert "stock & safety" in said
    assert 'Set epsilon = "..." under [report]' in said, "what is not stated is asked for"
    assert "against all other members together" in said
    assert "an observer that a site allows estimates, who takes part" in said


@pytest.mark.parametrize("schedule", ['[agents]\nevery = "6h"\n', ""])
def test_a_year_is_of_one_run_and_further_ones_add_up(schedule: str) -> None:
    said = words(sign_off(scenario(BASE.replace('[agents]\nevery = "6h"\n', schedule)), "local"))
    assert "a year 40 20 " in said
    assert "for one run, which ends after 40 readings; each further run" in said
    assert ("There is no schedule" in said) == (not schedule)


@pytest.mark.parametrize(
    ("budget", "what"),
    [
        ('unit = "event"', "for each reading"),
        ("", "for all readings together"),
        ('unit = "window"\nwindow = 8', "for 8 readings in a row"),
        ('per = "day"', "per day (rolling)"),
    ],
)
def test_the_budget_of_a_site_is_in_words(budget: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "ward.toml").write_text(BASE)
    (tmp_path / "agent.toml").write_text(AGENT.format(budget=budget))
    said = words(sign_off(scenario(), "local", agent=tmp_path / "agent.toml"))
    assert f"Budget of the site 0: epsilon = 1 {what}. Its ledger" in said


def test_a_year_is_in_the_first_paragraph_and_a_budget_limits_it(tmp_path: Path) -> None:
    text = BASE.replace('every = "6h"', "open_ended = true")
    endless = Scenario.parse(text, "ward.toml", name="ward")
    said = words(sign_off(endless, "local"))
    first, useless = said.partition("What is collected")[0], "no useful limit."
    assert f"for all readings of a year together it is {in_words(math.inf)}." in first
    assert useless in first
    assert "Nothing limits the readings of a day" in said
    (tmp_path / "agent.toml").write_text(AGENT.format(budget='per = "month"'))
    said = words(sign_off(endless, "local", agent=tmp_path / "agent.toml"))
    first = said.partition("What is collected")[0]
    assert f"for all readings of a year together it is {in_words(13.0)}." in first
    assert "Nothing limits the readings of a day" not in said
    once = words(sign_off(Scenario.parse(template()), "average"))
    assert "of a year together" not in once.partition("What is collected")[0], "one signal, one run"


def test_an_agent_of_another_scenario_or_variant_limits_nothing_here(tmp_path: Path) -> None:
    site, file = tmp_path / "agent.toml", tmp_path / "ward.toml"
    site.write_text(AGENT.format(budget=""))
    file.write_text(BASE.replace("epsilon = 0.5", "epsilon = 0.4"))
    with pytest.raises(
        AgentError, match=r"agent.toml, line 2: scenario: 0 runs .*ward.toml, which is"
    ):
        sign_off(scenario(), "local", agent=site)
    file.write_text(BASE)
    site.write_text(f'variant = "masked"\n{AGENT.format(budget="")}')
    assert SignOffTerms.of(scenario(), agent=site).mode is Mode.MASKED
    with pytest.raises(
        AgentError, match="0 runs the variant 'masked', and the page is to be of 'local'"
    ):
        sign_off(scenario(), "local", agent=site)
    file.unlink()  # the agent's folder need not be there
    assert SignOffTerms.of(scenario(), agent=site).site is not None


def test_a_page_of_a_larger_epsilon_says_larger_odds() -> None:
    """The weakened variant: a page with fixed words would pass the test above."""
    said = words(sign_off(scenario(BASE.replace("epsilon = 0.5", "epsilon = 1.5")), "local"))
    assert "at most 4.49 times more likely" in said
    assert "1.65 times" not in said


def test_network_dp_of_agents_is_not_to_be_signed() -> None:
    terms = SignOffTerms.of(scenario(), "network")
    said = words(sign_off(scenario(), "network"))
    assert terms.mode is Mode.NETWORK
    assert terms.signals.epsilon == 0.5
    assert "the low 25 bits of each message have no noise" in terms.refused
    drawn = BASE.replace('file = "doses.csv"', "draw = { mu = 3.0 }")  # as the files of a fleet say
    for text in (BASE, drawn):
        asked = SignOffTerms.of(scenario(text), "network")
        assert any("real agents refuse this" in why for why in objections(asked))
    assert "Do not sign" in said
    whole = terms.guarantee.for_transcript()
    assert whole.epsilon > terms.guarantee.epsilon
    assert f"all messages of one agent are {in_words(whole.epsilon)}" in said


def test_other_variants_on_the_same_signals_add_up() -> None:
    said = words(sign_off(scenario(), "local"))
    assert "other variants on the same signals (network, masked)" in said
    assert "together epsilon = 2." in said
    alone = BASE.partition("[[variant]]")[0]
    assert "other variants" not in words(sign_off(scenario(alone)))


def test_no_difference_costs_more_than_the_whole_value() -> None:
    """log(1 + s) on 0 .. 200 at radius 10 is 3 steps wide, not 20."""
    text = BASE.replace('"normal"', '"log-normal-1p"').replace("[0.0, 10.0]", "[0.0, 200.0]")
    text = text.replace("radius = 2.0", "radius = 10.0").partition("[[variant]]")[0]
    said = words(sign_off(scenario(text)))
    assert "the whole value: epsilon 1.5" in said
    assert "50 mg 1.5 at most" in said
    assert "100 mg 1.5 at most" in said


def test_a_masked_sum_states_colluders_attempts_and_what_more_of_them_cost() -> None:
    terms = SignOffTerms.of(scenario(), "masked")
    numbers = terms.summed
    assert numbers is not None
    said = words(sign_off(scenario(), "masked"))
    assert "one padded value in each attempt, with new noise and masks, 2 at most" in said
    assert terms.guarantee.epsilon == numbers.attempts * numbers.epsilon == 1.0
    assert "at most 2.72 times more likely" in said
    assert "up to 1 of the other members together" in said
    worse = math.exp(numbers.attempts * numbers.epsilon_against(2))
    found = re.search(r"2 of the other members together .*? at most ([\d.,]+) times", said)
    assert found is not None
    assert worse <= float(found[1].replace(",", "")) <= 1.02 * worse
    assert "X25519" in said
    assert "all other members together everything but this member's own small noise" in said
    assert "against all other members together" not in said


def test_a_masked_sum_without_colluders_says_that_it_covers_no_member() -> None:
    """One member by itself, which knows its own noise, learns more than epsilon."""
    said = words(sign_off(scenario(BASE.replace("colluders = 1", "colluders = 0")), "masked"))
    assert "for whoever is no member; any one member may learn more" in said
    assert "whoever is no member, with all messages" in said
    assert "1 of the other members together the same, and less noise that they do not know" in said
    assert "members uses what it knows, not even by itself, counted by label" in said
    assert "up to 0" not in said
    assert "at most 0" not in said


def test_nothing_protected_is_nothing_to_sign() -> None:
    terms = SignOffTerms.of(scenario(), "open")
    assert terms.mode is Mode.NOTHING
    assert objections(terms)
    said = words(sign_off(scenario(), "open"))
    assert "Do not sign" in said
    assert "times more likely" not in said
    assert not objections(SignOffTerms.of(scenario(), "local"))


def test_a_seed_or_replicas_of_measured_signals_are_objections() -> None:
    bad = BASE.replace("title =", "seed = 987654321\nreplicas = 3\ntitle =")
    terms = SignOffTerms.of(scenario(bad), "local")
    seeded, repeated = objections(terms)
    assert "Remove the seed" in seeded
    assert "epsilon = 1.5" in repeated
    shown = sign_off(scenario(bad), "local")
    assert terms.scenario.digest not in shown, (
        "the digest of a text with the seed helps to guess it"
    )
    assert "987654321" not in shown
    assert scenario().digest in sign_off(scenario(), "local")


def test_what_agents_cannot_run_is_said_and_not_to_be_signed() -> None:
    offline = 'algorithm = { name = "jacobi", rounds = 30 }\nagents.every = 0'
    text = BASE.replace(
        'name = "open"\nprivacy.protect = "nothing"', f'name = "offline"\n{offline}'
    )
    terms = SignOffTerms.of(scenario(text), "offline")
    assert "jacobi" in terms.refused
    (why,) = objections(terms)
    assert "real agents cannot run this" in why
    said = words(sign_off(scenario(text), "offline"))
    assert "The noise is ideal assumed" in said
    assert "One run costs epsilon = 0.5" in said
    drawn = text.replace('file = "doses.csv"', "draw = { mu = 3.0 }")
    assert not objections(SignOffTerms.of(scenario(drawn), "offline")), "drawn signals are nobody's"


@pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
def test_larger_differences_have_their_delta_too() -> None:
    """k steps of (epsilon, delta): delta grows by e^epsilon with each, until it limits nothing."""
    text = BASE.replace('"normal"', '"log-normal"').replace("[0.0, 10.0]", "[0.5, 100.0]")
    text = text.replace("radius = 2.0", 'radius = 1.0\ndelta = 0.01\nsensitivity = "smooth"')
    said = words(sign_off(scenario(text.partition("[[variant]]")[0])))
    for k, odds in ((2, "2.72"), (5, "12.2")):
        delta = 0.01 * math.expm1(0.5 * k) / math.expm1(0.5)
        row = f"{k} mg {0.5 * k:g} at most {odds} times more likely, except with probability"
        assert f"{row} {upward(delta, 3)}" in said
    assert "10 mg 5 not limited: delta would be above 0.5" in said


def test_without_larger_differences_none_is_announced() -> None:
    said = words(sign_off(scenario(BASE.replace("radius = 2.0", "radius = 6.0")), "local"))
    assert "Differences that are larger are hidden less. Why this radius" in said
    assert "step by step" not in said


@pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
def test_what_is_refuted_limits_nothing() -> None:
    """The published smooth sensitivity of log s: claimed with epsilon 0.5, and broken (erratum 2)."""
    text = BASE.replace("bounds = [0.0, 10.0]\n", "").replace('"normal"', '"log-normal"')
    text = text.replace(
        "radius = 2.0", 'radius = 1.0\ndelta = 0.01\nsensitivity = "smooth-as-published"'
    )
    terms = SignOffTerms.of(scenario(text.partition("[[variant]]")[0]))
    assert terms.signals.status is Status.REFUTED
    assert not terms.holds
    assert objections(terms)
    said = words(page(terms))
    assert "Do not sign" in said
    assert "not limited (refuted)" in said
    assert "times more likely" not in said


def test_a_sweep_over_measured_signals_is_signed_for_with_all_its_epsilons() -> None:
    text = BASE.replace("epsilon = 0.5", "epsilon = [0.5, 1.0, 2.0]")
    terms = SignOffTerms.of(scenario(text), "local")
    assert terms.guarantee.epsilon == 3.5
    assert "3.5" in words(sign_off(scenario(text), variant="local"))
    drawn = text.replace('file = "doses.csv"', "draw = { mu = 3.0 }")
    assert (
        SignOffTerms.of(scenario(drawn), "local").guarantee.epsilon == 2.0
    )  # nobody's: the weakest


def test_an_unknown_variant_is_an_error() -> None:
    with pytest.raises(ScenarioError, match="no variant 'x'; known: local, network, masked, open"):
        sign_off(scenario(), "x")


@pytest.mark.parametrize("variant", ["local", "network", "masked", "open"])
def test_every_proof_is_where_the_page_says(variant: str) -> None:
    for claim in claims(SignOffTerms.of(scenario(), variant)):
        text = (ROOT / "docs" / claim.page).read_text(encoding="utf-8")
        assert re.search(rf"^#+ {re.escape(claim.heading)}$", text, re.MULTILINE), claim
        assert (ROOT / claim.tests).is_dir(), claim
        assert claim.status in {*map(str, Status), "tested", "assumed"}


def test_the_command_replaces_its_own_page_and_no_other_file(tmp_path: Path) -> None:
    file, out = tmp_path / "ward.toml", tmp_path / "page.html"
    file.write_text(BASE)
    (tmp_path / "agent.toml").write_text(AGENT.format(budget='per = "day"'))

    def call(*more: str) -> Any:
        return CliRunner().invoke(app, ["report", str(file), "--out", str(out), *more])

    done = call("--agent", str(tmp_path / "agent.toml"))
    assert done.exit_code == 0, done.output
    said = words(out.read_text())
    assert "a day 2 1 at most 2.72 times more likely the budget" in said, "4 readings would cost 2"
    refused = call("--variant", "open")
    assert refused.exit_code == 1
    assert "do not sign: the guarantee is not proved" in refused.output
    assert "nothing to audit" in words(out.read_text()), "the page of the other variant is gone"
    assert call("--trials", "5000").exit_code == 2
    assert call("--per-day", "0").exit_code == 2
    audited = call("--audit", "--trials", "5000")
    assert audited.exit_code == 0, audited.output
    assert re.search(r"local not refuted 0.5 [0-9.]+ 0.5 5,000", words(out.read_text()))
    out.write_text("a letter")
    other = call()
    assert other.exit_code == 2
    assert "is there already and is no html file of veilsum" in " ".join(other.output.split())
    assert out.read_text() == "a letter"


def test_the_page_is_written_into_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ward.toml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["report", "ward.toml"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("ward-report.html: a page to print")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ward-report.html", "ward.toml"]


def audit_section(page: str) -> str:
    found = re.search(r'<section id="audit">.*?</section>', page, re.DOTALL)
    assert found is not None
    return words(f"</style>{found[0]}")


def test_the_verdict_of_the_likelihoods_is_on_the_page() -> None:
    said = audit_section(sign_off(scenario(), "local"))
    assert "not refuted local: of the epsilon of 0.5 that is claimed, exactly 0.5 is spent" in said
    assert "veilsum report ward.toml --variant local --audit also attacks by samples" in said
    masked = audit_section(sign_off(scenario(), "masked"))
    assert "of the epsilon of 0.5 that is claimed, exactly 0.5 is spent" in masked
    assert "what colluders can compute in one session" in masked, "of the two of a query"
    network = audit_section(sign_off(scenario(), "network"))
    assert network.count("not refuted") == 5, "the signal, and four kinds of views of neighbours"


@pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
def test_the_page_says_where_no_attack_was_run_and_how_to_run_one() -> None:
    text = BASE.replace('"normal"', '"log-normal"').replace("[0.0, 10.0]", "[0.5, 100.0]")
    text = text.replace("radius = 2.0", 'radius = 1.0\ndelta = 0.01\nsensitivity = "smooth"')
    said = audit_section(sign_off(scenario(text.partition("[[variant]]")[0])))
    assert "No attack was run. veilsum report ward.toml --audit attacks" in said
    assert "refuted" not in said


def test_noise_that_is_too_small_is_refuted_by_likelihoods_and_not_to_be_signed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weakened variant: 1% of the noise is missing."""
    exact = problem_audits.transcript_loss
    monkeypatch.setattr(problem_audits, "transcript_loss", lambda *given: exact(*given) / 0.99)
    terms = SignOffTerms.of(scenario(), "local")
    found = attacks(terms)
    assert [report.verdict for report, _ in found] == ["REFUTED"]
    assert "the audit refutes a claim." in objections(terms, found)
    shown = page(terms, audited=found)
    assert 'badge bad">refuted' in shown
    assert "Do not sign: the audit refutes a claim." in words(shown)


def test_every_objection_has_words() -> None:
    source = (ROOT / "src/veilsum/front/templates/sign/objections.html").read_text("utf-8")
    assert set(re.findall(r'why == "([^"]+)"', source)) == set(map(str, Objection))


def test_every_claim_has_words() -> None:
    for variant in ("local", "network", "masked", "open"):
        rows = sign_off(scenario(), variant).partition('id="claims"')[2].partition("</table>")[0]
        assert "<td></td>" not in rows
        assert rows.count("<tr><td>") == len(claims(SignOffTerms.of(scenario(), variant)))


def test_the_words_are_in_templates_and_not_in_python() -> None:
    """A lawyer reviews the templates: no element and no paragraph is assembled elsewhere."""
    for file in (ROOT / "src/veilsum/reports").glob("*.py"):
        strings = [
            node.value
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not [text for text in strings if re.search(r"</?(p|td|tr|li|span|h\d)\b", text)]


SKELLAM = """\
name = "mix"
[network]
graph = "complete:20"
[family]
name = "multivariate-normal"
sigma = {identity}
bounds = [0.0, 10.0]
[signals]
file = "x.csv"
[privacy]
protect = "signal"
mode = "masked"
epsilon = 1.0
delta = 2e-6
radius = inf
colluders = 3
absent = 1
attempts = 2
[algorithm]
name = "masked-sum"
rounds = 20
"""


def test_the_page_of_skellam_noise_states_delta_wherever_epsilon_is_put_in_words() -> None:
    identity = [[float(i == j) for j in range(64)] for i in range(64)]
    made = sign_off(Scenario.parse(SKELLAM.format(identity=identity)))
    said = words(made)
    assert "with at least one full Skellam noise" in said
    assert "discrete Laplace" not in said
    assert "Epsilon = 1, delta = 2e-06 for one signal" in said  # two sessions of each
    assert "Except with probability 2e-06, for which nothing is limited." in said
    beyond = re.findall(r"at most [\d.]+ times more likely[^:]{0,40}: beyond the guarantee", said)
    assert beyond
    assert all("except with probability 2e-06" in each for each in beyond)
    assert "the mean of s (a vector) over all members" in said
    local = sign_off(Scenario.parse(BASE), "masked")
    assert "with at least one full discrete Laplace noise" in words(local)
    assert "Except with probability" not in words(local)


INCOMES = BASE.replace("[0.0, 10.0]", "[0.0, 300000.0]").replace('"mg"', '"CHF"')
INCOMES = INCOMES.replace("radius = 2.0", "radius = 1.0").replace("epsilon = 0.5", "epsilon = 1.0")
TWELVE = BASE.replace("radius = 2.0\n", "").replace("epsilon = 0.5", "epsilon = 12.0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (INCOMES, "hides moves of 1 of 300,000 CHF; the whole value: epsilon 300,000"),
        (TWELVE, "epsilon for the whole value of a signal is 12"),
        (BASE.replace("bounds = [0.0, 10.0]\n", ""), "has no limit"),
    ],
)
def test_a_guarantee_on_paper_is_not_to_be_signed_without_a_reason(
    text: str, said: str, tmp_path: Path
) -> None:
    file, out = tmp_path / "ward.toml", tmp_path / "page.html"
    file.write_text(text.partition("[[variant]]")[0])

    def call(*more: str) -> Any:
        return CliRunner().invoke(app, ["report", str(file), "--out", str(out), *more])

    done = call()
    assert done.exit_code == 1
    assert said in " ".join(done.output.split())
    said = " ".join(done.output.partition("do not sign: ")[2].split())
    assert f"Do not sign: {said}" in words(out.read_text())
    lead = out.read_text().partition('id="collected"')[0]
    assert 'badge good"' not in lead
    done = call("--reason", "the council <agreed> on 3 May")
    assert done.exit_code == 0, done.output
    assert "The reason given: the council <agreed> on 3 May" in words(out.read_text())
    assert 'badge good"' not in out.read_text().partition('id="collected"')[0]
    file.write_text(file.read_text().replace("[report]", '[report]\nwhole_value = "agreed"'))
    assert call().exit_code == 0
    assert "The reason given: agreed" in words(out.read_text())


def test_what_is_useful_has_a_green_box_and_no_objection() -> None:
    page = sign_off(scenario(), "local")
    assert 'badge good">proved' in page.partition('id="collected"')[0]
    assert "hides moves of 2 of 10 mg; the whole value: epsilon 2.5" in words(page)
    assert "Do not sign" not in page


def test_the_page_says_where_readings_are_and_who_has_read_the_proofs() -> None:
    """Of a CSV in one place it said that readings stay on the site that measured them."""
    said = words(sign_off(scenario(), "local"))
    assert "readings stay on the site" not in said
    assert "those of all members in one file, doses.csv" in said
    assert "Their readings are in one file" in said
    assert "Whatever anyone sees" not in said, "the machine's owner sees the readings"
    assert "Nobody outside the project has read these proofs yet" in said
    assert "Files hold estimates with noise, figures and the guarantee; with --truth also" in said
    assert "as secret as they are; veilsum deletes none of them" in said
    assert "Kept for Not stated" in said
    drawn = BASE.replace('file = "doses.csv"', "draw = { mu = 5.0 }")
    said = words(sign_off(scenario(drawn), "local"))
    assert "on the site that measured them; veilsum sends none" in said
    assert "its ledger: what was released" in said
    kept = BASE.replace("[report]", '[report]\nkept = "two years"')
    assert "Kept for two years" in words(sign_off(scenario(kept), "local"))
