"""The animation of README: fifty meters of examples/feeder.toml agree on their mean load.

    python docs/animation.py              writes docs/images/run.gif
    python docs/animation.py --check      fails if it shows other numbers than a run gives

On the left the feeder, each meter coloured by its estimate; on the right all estimates, which close
towards the answer, with its error bar. Every number is of a simulated run; the file's comment has
their digest, so that a check needs no picture.
"""

from __future__ import annotations

import hashlib
import io
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from veilsum.front import style
from veilsum.front.odds import in_words
from veilsum.networks import layout
from veilsum.results.result import Result
from veilsum.scenario import Scenario
from veilsum.simulation import Record

ROOT = Path(__file__).resolve().parent.parent
SCENARIO, GIF = ROOT / "examples" / "feeder.toml", ROOT / "docs" / "images" / "run.gif"
INCHES, DOTS = (8.0, 4.3), 100  # a picture of 800 x 430
LAST = 48  # round; what follows changes nothing that can be seen
PAUSE, SLOW, QUICK, HOLD = 1000, 420, 140, 2600  # milliseconds: first frame, rounds, last frame
BEGINNING = 7  # rounds that are shown slowly: most happens in them
COLOURS = 256  # of the palette of all frames


@dataclass(frozen=True)
class Story:
    """What is shown: estimates by round and meter, positions, links, answer and words."""

    estimates: NDArray[np.float64]
    places: NDArray[np.float64]
    links: NDArray[np.int64]
    truth: float
    estimate: float
    interval: tuple[float, float]
    unit: str
    words: str

    @property
    def digest(self) -> str:
        """Of every number and word, to six digits."""
        numbers = [f"{x:.6g}" for x in np.ravel(self.estimates)]
        numbers += [f"{x:.6g}" for x in (self.truth, self.estimate, *self.interval)]
        text = "\n".join([*numbers, self.unit, self.words, str((INCHES, DOTS, rounds_shown()))])
        return hashlib.sha256(text.encode()).hexdigest()


def rounds_shown() -> list[int]:
    """Every round at first, then every second and every fourth."""
    return [*range(13), *range(14, 29, 2), *range(32, LAST + 1, 4)]


def durations(order: list[int]) -> list[int]:
    """Milliseconds of each frame."""
    between = [SLOW if t <= BEGINNING else QUICK for t in order[1:-1]]
    return [PAUSE, *between, HOLD]


def story() -> Story:
    """Run the scenario once, keeping every estimate."""
    job = replace(Scenario.load(SCENARIO).build("feeder"), record=Record(every=1))
    result: Result = job.run()
    network, trace = result.problem.network, result.trace
    found = result.guarantee
    words = (
        f"ε = {found.epsilon:g}: whatever anyone sees is {in_words(found.epsilon)}\n"
        f"under one load of a meter than under another that differs by {found.unit.radius:g} {job.unit}"
    )
    assert trace.private is not None
    estimates = trace.private[:, :, 0, 0, 0]  # one epsilon, one run, one component
    return Story(
        estimates, layout.of_network(network), layout.links(network), float(trace.target[0][0]),
        float(result.estimate["mu"]), result.interval["mu"], job.unit, words,
    )  # fmt: skip


def frame(shown: Story, t: int, last: bool) -> Image.Image:
    """The picture of round t."""
    figure = style.figure(*INCHES)
    figure.set_layout_engine("none")
    figure.patch.set_facecolor("white")
    low, high = float(shown.estimates[0].min()), float(shown.estimates[0].max())
    _map(figure, shown, t, low, high)
    _fan(figure, shown, t, (low, high), last)
    figure.text(0.5, 0.955, "Fifty meters agree on their mean load, without a server",
                ha="center", va="center", fontsize=14, fontweight="bold", color=style.INK)  # fmt: skip
    figure.text(0.5, 0.06, shown.words, ha="center", va="center", fontsize=11.5, color=style.INK)
    data = io.BytesIO()
    figure.savefig(data, dpi=DOTS, format="png")
    return Image.open(data).convert("RGB")


def _map(figure: Figure, shown: Story, t: int, low: float, high: float) -> None:
    """The feeder; the colour bar has the range of the first round and keeps it."""
    ax = figure.add_axes((0.015, 0.17, 0.36, 0.70))
    ax.add_collection(
        LineCollection(list(shown.places[shown.links]), colors=style.FAINT, linewidths=0.7)
    )
    x, y = shown.places.T
    dots = ax.scatter(x, y, c=shown.estimates[t], s=75, cmap=colours(), linewidths=0.6,
                      norm=Normalize(low, high), edgecolors=style.INK, zorder=3)  # fmt: skip
    ax.set_aspect("equal")
    ax.set_axis_off()
    bar = figure.colorbar(dots, cax=figure.add_axes((0.385, 0.22, 0.014, 0.60)))
    bar.set_ticks([low, shown.estimate, high],
                  labels=[f"{v:.1f}" for v in (low, shown.estimate, high)])  # fmt: skip
    bar.ax.tick_params(labelsize=10)
    bar.ax.set_title(shown.unit, fontsize=10)


def _fan(figure: Figure, shown: Story, t: int, ends: tuple[float, float], last: bool) -> None:
    """All estimates so far, the mean that nobody knows, and at the end the error bar."""
    ax = style.tidy(figure.add_axes((0.50, 0.245, 0.475, 0.60)))
    ax.set_xscale("function", functions=(_root, np.square))  # most happens in the first rounds
    ax.set(xlim=(0, LAST + 16), ylim=(ends[0] - 0.5, ends[1] + 0.3))
    ax.set_xlabel("round", fontsize=11, labelpad=1)
    ax.set_ylabel(f"estimate ({shown.unit})", fontsize=11)
    ax.tick_params(labelsize=10)
    ax.set_xticks([0, 1, 3, 6, 12, 24, 48])
    rounds = np.arange(t + 1)
    paths = [
        np.column_stack([rounds, shown.estimates[: t + 1, k]])
        for k in range(shown.estimates.shape[1])
    ]
    ax.add_collection(
        LineCollection(paths, colors=style.PRIVACY.colour, linewidths=0.9, alpha=0.45)
    )
    ax.plot(
        np.full(len(paths), t),
        shown.estimates[t],
        "o",
        color=style.PRIVACY.colour,
        markersize=3.5,
        clip_on=False,
    )
    ax.axhline(shown.truth, color=style.INK, linewidth=1.2, linestyle="--", zorder=1.5)
    ax.text(46, shown.truth - 0.3, "true mean, unknown to all", fontsize=10.5, ha="right",
            va="top", color=style.INK)  # fmt: skip
    spread = f"{shown.estimates[t].min():.2f} to {shown.estimates[t].max():.2f} {shown.unit}"
    ax.text(0.97, 0.97, f"round {t}: meters say\n{spread}", transform=ax.transAxes, fontsize=12,
            ha="right", va="top", color=style.PRIVACY.colour)  # fmt: skip
    if last:
        _answer(ax, shown)


def _answer(ax: Any, shown: Story) -> None:
    half = (shown.interval[1] - shown.interval[0]) / 2
    ax.errorbar([LAST + 7], [shown.estimate], yerr=[[shown.estimate - shown.interval[0]],
                [shown.interval[1] - shown.estimate]], fmt="o", color=style.TOTAL.colour, markersize=6,
                capsize=5, linewidth=2)  # fmt: skip
    answer = f"answer {shown.estimate:.2f} ± {half:.2f} {shown.unit} (95%)"
    ax.text(LAST + 15, shown.interval[1] + 0.08, answer, fontsize=12,
            fontweight="bold", ha="right", va="bottom", color=style.TOTAL.colour)  # fmt: skip


def colours() -> ListedColormap:
    """Viridis without its last, brightest part, which white paper swallows."""
    from matplotlib import colormaps

    return ListedColormap(colormaps["viridis"](np.linspace(0.0, 0.92, 64)))


def draw(shown: Story, path: Path) -> None:
    """Write the animation; it loops without an end."""
    order = rounds_shown()
    frames = [frame(shown, t, last=t == order[-1]) for t in order]
    palette = _palette(frames)
    plain = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in frames]
    plain[0].save(
        path, save_all=True, append_images=plain[1:], loop=0, optimize=True, disposal=1,
        duration=durations(order), comment=shown.digest.encode(),
    )  # fmt: skip


def _palette(frames: list[Image.Image]) -> Image.Image:
    """Colours of the first and the last frame, and of every step of the colour bar."""
    width, height = frames[0].size
    sample = Image.new("RGB", (width, 3 * height))
    sample.paste(frames[0], (0, 0))
    sample.paste(frames[-1], (0, height))
    steps = (255 * colours()(np.linspace(0, 1, width))[:, :3]).astype(np.uint8)
    sample.paste(Image.fromarray(np.tile(steps, (height, 1, 1))), (0, 2 * height))
    return sample.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)


def _root(rounds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt(np.maximum(rounds, 0.0))


def stored_digest(path: Path = GIF) -> str:
    """The digest that the file carries."""
    with Image.open(path) as image:
        return bytes(image.info["comment"]).decode("ascii")


def main() -> None:
    """Write the animation, or check it."""
    shown = story()
    if "--check" in sys.argv[1:]:
        if not GIF.is_file() or stored_digest() != shown.digest:
            sys.exit(f"{GIF.relative_to(ROOT)} is out of date; run: python docs/animation.py")
        return
    draw(shown, GIF)
    print(f"{GIF.relative_to(ROOT)}: {GIF.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
