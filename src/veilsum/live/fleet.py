"""The fleet page's data: the terms of all sites, the last status of each, and the rounds so far.

    FleetTerms      what is agreed and never changes: sites, links, positions, bounds, guarantee
    FleetPage       takes statuses, and publishes what changed a few times a second

A page shows what agents release and public terms. Where no guarantee covers estimates, they are left
out before they are stored (`FleetTerms.estimates`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from veilsum._validate import found
from veilsum.agents.runtime.status import ENDED
from veilsum.errors import AgentError
from veilsum.live.fleet_history import MOST_LINES, RoundHistory, brief, is_kept
from veilsum.live.fleet_layout import place

if TYPE_CHECKING:
    from veilsum.agents.manifest import Manifest
    from veilsum.live.hub import Hub

INTERVAL = 0.25  # seconds between two events of one kind, at least
MOST_NAMES = 12  # of members that a site misses, or links that are not open
HEARD = {"silent_since": None, "silent_reason": ""}  # of a site that is not silent
OPEN = ("open", "done")  # states of a link that need no attention
MOST_EXPECTED = 300  # sites beyond which the error bar to expect is not computed by round
POINTS, FEW_POINTS = 24, 8  # rounds for which it is: of few sites, and of more than have lines

Pairs = tuple[tuple[int, int], ...]
Positions = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class FleetTerms:
    """What all sites of a fleet agree on, as the page shows it.

    Parameters
    ----------
    labels : tuple of str
        The sites, in the manifest's order.
    edges : tuple of (int, int)
        Their links, by place in `labels`.
    positions : tuple of (float, float)
        Where to draw each, within the unit square, y upwards.
    bounds : tuple of (float or None, float or None)
        Public bounds of an estimate, where there are any.
    unit : str
        Of the estimates; may be empty.
    guarantee : str
        In words.
    rounds : int
        The last round, or the last query of masked sums; 0 without an end.
    name, title : str
        Of the fleet, and the line below it.
    manifest : str
        The hash of the manifest, in hex.
    masked : bool
        Whether results are masked sums.
    quorum, attempts : int
        Members that a result needs; sessions that a query of a masked sum may take.
    components : int
        Of an estimate; the page shows the first.
    estimates : bool
        Whether estimates may be shown.
    expected : tuple of (int, float)
        Round and half width of the interval that the terms give if nobody is missing.
    epoch : int
        Of the membership.
    former : tuple of (str, int)
        Members of earlier epochs, and the epoch from which each is none.
    placed : str
        "map" where positions came with the network, "layout" where they were computed.

    Raises
    ------
    AgentError
        If a link or the positions do not fit the sites.

    Examples
    --------
    >>> FleetTerms(("a", "b"), ((0, 1),), ((0.0, 0.5), (1.0, 0.5)), (0.0, 10.0), "kW", "", 100).size
    2
    """

    labels: tuple[str, ...]
    edges: Pairs
    positions: Positions
    bounds: tuple[float | None, float | None]
    unit: str
    guarantee: str
    rounds: int
    name: str = "fleet"
    title: str = ""
    manifest: str = ""
    masked: bool = False
    quorum: int = 0
    attempts: int = 0
    components: int = 1
    estimates: bool = True
    expected: tuple[tuple[int, float], ...] = ()
    placed: str = "layout"
    epoch: int = 1
    former: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        if len(self.positions) != self.size or len(set(self.labels)) != self.size:
            raise AgentError(
                f"a fleet page needs distinct labels and one position for each; found {self.size} "
                f"labels ({len(set(self.labels))} distinct) and {len(self.positions)} positions"
            )
        wrong = next((e for e in self.edges if not all(0 <= k < self.size for k in e)), None)
        if wrong is not None:
            raise AgentError(
                f"a link of a fleet page joins places 0 to {self.size - 1}; found {wrong}"
            )

    @property
    def size(self) -> int:
        """The number of sites."""
        return len(self.labels)

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        family: Any,
        *,
        positions: Any = None,
        unit: str = "",
        title: str = "",
        estimates: bool = True,
        placed: str | None = None,
        former: Mapping[str, int] | None = None,
    ) -> FleetTerms:
        """The terms of a manifest, with the guarantee and the error bar that follow from it.

        Parameters
        ----------
        manifest : Manifest
            Of the fleet.
        family : Family
            Of the readings.
        positions : array_like of float, optional
            (sites, 2), in any units; a layout is computed from the links without them.
        unit, title : str
            Of the signals (estimates have it if they are means of these), and the line below the name.
        estimates : bool
            Whether estimates may be shown: not where sites withhold them from observers, nor those of
            measured signals without protection.
        placed : str, optional
            As in `FleetTerms`; by default "map" if there are positions.
        former : mapping of str to int, optional
            Members of earlier epochs, and the epoch from which each is none.

        Returns
        -------
        FleetTerms
            Valid.
        """
        from veilsum.agents.release import guarantee
        from veilsum.results.units import in_sentence, of_family

        index = {label: k for k, label in enumerate(manifest.labels)}
        edges = {tuple(sorted((index[a], index[b]))) for a, b, _ in manifest.links if a != b}
        pairs = sorted(edges)
        low, high = (brief(end[0]) for end in family.moves(math.inf).range)
        points = place(len(index), pairs, positions)
        return cls(
            labels=manifest.labels,
            edges=tuple((a, b) for a, b in pairs),
            positions=tuple((x, y) for x, y in points),
            bounds=(low, high),
            unit=of_family(unit, family),
            guarantee=in_sentence(str(guarantee(manifest, family)), unit),
            rounds=manifest.queries if manifest.masked else manifest.rounds,
            name=manifest.name,
            title=title,
            manifest=manifest.digest.hex(),
            masked=manifest.masked,
            quorum=manifest.quorum,
            attempts=manifest.attempts,
            components=manifest.dimension,
            estimates=estimates,
            expected=_expected(manifest, family) if estimates else (),
            placed=placed or ("layout" if positions is None else "map"),
            epoch=manifest.epoch,
            former=tuple((former or {}).items()),
        )


def _expected(manifest: Manifest, family: Any) -> tuple[tuple[int, float], ...]:
    """The half width to expect by round, of the first agent with everybody's readings."""
    from veilsum.agents.intervals import half_width

    last = manifest.queries if manifest.masked else manifest.rounds
    if not last or len(manifest.members) > MOST_EXPECTED:
        return ()
    points = POINTS if len(manifest.members) <= MOST_LINES else FEW_POINTS
    steps = {round(last ** (k / (points - 1))) for k in range(points)}
    if manifest.masked:
        steps = {last}
    widths = [
        (t, half_width(manifest, family, label=manifest.labels[0], round=t)[0]) for t in steps
    ]
    return tuple((t, float(f"{width:.6g}")) for t, width in sorted(widths) if math.isfinite(width))


class FleetPage:
    """The data of a fleet page: takes statuses from any thread and publishes what changed.

    Parameters
    ----------
    hub : Hub
        Made with `apply=fold`, as `FleetServer` does; carries the snapshot and the events.
    terms : FleetTerms
        Of the fleet.
    interval : float
        Seconds between two events of one kind, at least; 0 publishes at once.

    Examples
    --------
    >>> from veilsum.live.hub import Hub
    >>> terms = FleetTerms(("a", "b"), ((0, 1),), ((0.0, 0.5), (1.0, 0.5)), (0.0, 1.0), "", "", 9)
    >>> page = FleetPage(Hub(apply=fold), terms, interval=0.0)
    >>> page.update("a", {"state": "running", "round": 3, "estimate": [0.4]}, at=100.0)
    >>> page.silent("b", since=90.0)
    >>> sites = page.hub.snapshot["sites"]
    >>> sites["a"]["estimate"], sites["b"]["silent_since"], page.silent_sites
    (0.4, 90.0, ('b',))
    """

    def __init__(self, hub: Hub, terms: FleetTerms, interval: float = INTERVAL) -> None:
        """Nothing is known of any site yet."""
        self.hub, self.terms, self.interval = hub, terms, interval
        self._history = RoundHistory(terms.labels)
        self._sites: dict[str, dict[str, Any]] = {label: {} for label in terms.labels}
        self._pending: dict[str, dict[str, Any]] = {}
        self._recorded = False
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._closed = False
        hub.publish("terms", asdict(terms))

    @property
    def silent_sites(self) -> tuple[str, ...]:
        """Those that say nothing at present."""
        with self._lock:
            return tuple(
                k for k, site in self._sites.items() if site.get("silent_since") is not None
            )

    def update(self, label: str, status: Mapping[str, Any], at: float, record: bool = True) -> None:
        """Take the status of a site.

        Parameters
        ----------
        label : str
            The site.
        status : mapping
            As of `AgentStatus.to_json`; parts may be missing.
        at : float
            When it was received, in seconds of the epoch.
        record : bool
            Whether its estimate belongs to the rounds so far: not if `record` has had later ones. A
            site that is back at an earlier round has begun anew.

        Raises
        ------
        AgentError
            If there is no such site.
        """
        site = site_of(status, self.terms.estimates) | {"received_at": round(at, 1)}
        with self._lock:
            self._change(label, site | HEARD)
            value, t = site.get("estimate"), site.get("round")
            present = site["epoch"] in (None, self.terms.epoch)  # rounds are those of one epoch
            if record and present and value is not None and t is not None:
                width = site.get("half_width")
                self._history.record(t, {label: value}, {} if width is None else {label: width})
                self._recorded = True
            self._schedule()

    def record(self, round: int, estimates: Mapping[str, float]) -> None:
        """Take the estimates of some sites after a round that no status was seen of.

        Parameters
        ----------
        round : int
            The round.
        estimates : mapping of str to float
            First components, by label; ignored where estimates may not be shown.
        """
        if not self.terms.estimates or not estimates:
            return
        with self._lock:
            for label in estimates:
                self._known(label)
            self._history.record(round, estimates)
            self._recorded = True
            self._schedule()

    def silent(self, label: str, since: float, reason: str = "", epoch: int | None = None) -> None:
        """Say that a site has not been heard of since a time.

        Parameters
        ----------
        label : str
            The site.
        since : float
            In seconds of the epoch; of a site that is silent already the first counts.
        reason : str
            Why, as far as it is known; the last counts.
        epoch : int, optional
            The epoch that it is in, if that is known although its status cannot be shown.
        """
        with self._lock:
            if epoch is not None:
                self._change(label, {"epoch": epoch})
            before = self._known(label).get("silent_since")
            since = round(since, 1) if before is None else before
            self._change(label, {"silent_since": since, "silent_reason": reason})
            self._schedule()

    def seen(self, label: str) -> None:
        """Say that a site was heard of, and that nothing has changed."""
        with self._lock:
            if self._known(label).get("silent_since") is not None:
                self._change(label, HEARD)
                self._schedule()

    def leave_out(self, label: str) -> None:
        """Say that a site is not watched: nothing is expected of it."""
        with self._lock:
            self._change(label, {"unwatched": True})
            self._schedule()

    def watch(self, label: str) -> None:
        """Say that a site is watched from now on."""
        with self._lock:
            if self._known(label).get("unwatched"):
                self._change(label, {"unwatched": False})
                self._schedule()

    def follow(self, terms: FleetTerms) -> None:
        """Show the fleet under other terms, of a later epoch: rounds begin anew.

        What is known of sites that are members of both stays; of those that are none any more nothing.

        Parameters
        ----------
        terms : FleetTerms
            From now on.
        """
        with self._lock:
            self.flush()
            self.terms = terms
            self._history, self._recorded = RoundHistory(terms.labels), False
            self._sites = {label: self._sites.get(label, {}) for label in terms.labels}
            self.hub.publish("terms", asdict(terms))

    def has_ended(self, label: str) -> bool:
        """Whether a site is done or stopped, so that no further status is expected."""
        with self._lock:
            return self._known(label).get("state") in ENDED

    def stopped(self) -> None:
        """Say that every site that is neither done nor silent is stopped."""
        with self._lock:
            for label, site in self._sites.items():
                if site.get("silent_since") is None and site.get("state") not in ENDED:
                    self._change(label, {"state": "stopped"})
            self._schedule()

    def run(self, state: str, text: str) -> None:
        """Say how the run of all sites is.

        Parameters
        ----------
        state : str
            "starting", "running", "ended" or "failed".
        text : str
            One sentence.
        """
        with self._lock:
            self.flush()
            self.hub.publish("run", {"state": state, "text": text})

    def flush(self) -> None:
        """Publish what has changed."""
        with self._lock:
            self._timer = None
            if self._pending:
                self.hub.publish("sites", {"sites": self._pending})
                self._pending = {}
            if self._recorded:
                self.hub.publish("rounds", self._history.changes())
                self._recorded = False

    def close(self) -> None:
        """Publish what is left; later changes are not published."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            self.flush()

    def _known(self, label: str) -> dict[str, Any]:
        if label not in self._sites:
            raise AgentError(
                f"{found(label)} is no site of {self.terms.name}; expected a label of its manifest"
            )
        return self._sites[label]

    def _change(self, label: str, fields: Mapping[str, Any]) -> None:
        site = self._known(label)
        changed = {name: value for name, value in fields.items() if site.get(name, ...) != value}
        if changed:
            site.update(changed)
            self._pending.setdefault(label, {}).update(changed)

    def _schedule(self) -> None:
        """Publish soon: at once without an interval, else when it has passed."""
        if not self.interval:
            self.flush()
        elif self._timer is None and not self._closed:
            self._timer = threading.Timer(self.interval, self.flush)
            self._timer.daemon = True
            self._timer.start()


def site_of(status: Mapping[str, Any], estimates: bool = True) -> dict[str, Any]:
    """What the page shows of one site's status, and nothing else of it.

    Parameters
    ----------
    status : mapping
        As of `AgentStatus.to_json`.
    estimates : bool
        Whether estimates and their intervals may be shown.

    Returns
    -------
    dict
        The fields of a site in the snapshot.
    """
    taken = (
        "state", "reason", "round", "budget", "session", "version", "manifest", "epoch", "last_reading",
    )  # fmt: skip
    site: dict[str, Any] = {name: status.get(name) for name in taken}
    days = status.get("certificate_days")
    site["certificate_days"] = None if days is None else round(days, 1)
    site["estimate"] = _first(status.get("estimate")) if estimates else None
    site["half_width"] = _first(status.get("half_width")) if estimates else None
    site["coverage"] = _coverage(status.get("coverage"))
    site["links"] = _links(status.get("links"))
    return site


def _first(values: Sequence[float | None] | None) -> float | None:
    return None if not values or values[0] is None else brief(values[0])


def _coverage(coverage: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if coverage is None:
        return None
    names = list(coverage.get("missing", ()))
    numbers = {name: coverage.get(name) for name in ("contributing", "members", "quorum")}
    gone = {how: list(coverage.get(how, ()))[:MOST_NAMES] for how in ("left", "lost")}
    return numbers | {"missing": names[:MOST_NAMES]} | gone


def _links(links: Mapping[str, str] | None) -> dict[str, Any] | None:
    if links is None:
        return None
    broken = {peer: state for peer, state in links.items() if state not in OPEN}
    shown = dict(sorted(broken.items())[:MOST_NAMES])
    return {"open": len(links) - len(broken), "total": len(links), "broken": shown}


def fold(snapshot: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
    """Change the snapshot of a fleet page by an event: `Hub.apply` of its hub.

    Parameters
    ----------
    snapshot : dict
        {"terms", "run", "sites", "stride", "detail", "rounds", "fan"}, as far as they are known.
    kind : str
        "terms", "run", "sites" or "rounds".
    data : dict
        Of the event.
    """
    if kind == "sites":
        sites = snapshot.setdefault("sites", {})
        for label, fields in data["sites"].items():
            sites.setdefault(label, {}).update(fields)
    elif kind == "rounds":
        rows = {row["round"]: row for row in (*snapshot.get("rounds", ()), *data["rounds"])}
        last = max((t for t, row in rows.items() if row["count"]), default=0)
        stride, detail = data["stride"], data["detail"]
        snapshot |= {"stride": stride, "detail": detail}
        known = sorted(t for t, row in rows.items() if row["count"])
        kept = [t for t in known if is_kept(t, stride, detail) or t == last]
        snapshot["rounds"] = [rows[t] for t in kept]
        fan = None if data["fan"] is None else snapshot.get("fan", {}) | data["fan"]
        snapshot["fan"] = fan and {str(t): fan[str(t)] for t in kept if str(t) in fan}
    elif kind == "terms":
        if snapshot.get("terms") and snapshot["terms"]["manifest"] != data["manifest"]:
            kept_sites = snapshot.get("sites", {})
            snapshot["sites"] = {k: kept_sites[k] for k in data["labels"] if k in kept_sites}
            snapshot |= {"stride": 1, "detail": 0, "rounds": [], "fan": {}}
        snapshot["terms"] = data
    else:
        snapshot[kind] = data
