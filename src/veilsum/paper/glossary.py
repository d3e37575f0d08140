"""Words for readers who have not read the paper: what the page of the reproduction explains."""

from __future__ import annotations

import re

from veilsum._html import Markup, element

INTRODUCTION = (
    "Agents on a network, such as smart meters or hospitals, want the mean of something that each of "
    "them measured, without a server and without showing its own value to anyone. The paper proposes "
    "that each agent adds random noise to its value and then averages again and again with its "
    "neighbours. It bounds the error, claims differential privacy, and reports experiments on a power "
    "grid and on households. This page computes them again, statement by statement, and says which "
    "of them hold."
)
MEANINGS = {
    "confirmed": "It holds: the numbers agree with it.",
    "true, uninformative": "It holds, and says nothing that agents without a network do not reach.",
    "corrected": "It holds once something in it is changed, or only in part; the row says what.",
    "refuted": "It does not hold; the row has the numbers that contradict it.",
    "skipped": "Not computed here, for lack of data; the row says which.",
    "failed": "An error stopped the computation; the row says which.",
}
GLOSSARY = {
    "agent": "One member of the network: it has its own signals and talks to its neighbours only.",
    "signal": "What an agent measured: a load, a count. It must stay secret.",
    "statistic ξ": "The function of a signal that is averaged, such as log s.",
    "round": "One exchange of messages between neighbours, after which each averages what it heard.",
    "offline, online": "Offline, each agent has one signal; online, a new one in every round.",
    "weights A": "How much an agent listens to each neighbour; the rows and columns add up to 1.",
    "beta*": "How slowly a network mixes: disagreement shrinks by this factor in every round.",
    "differential privacy (DP)": "A limit on what can be concluded: whatever is seen is at most e^ε times "
    "more likely under one signal than under another.",
    "epsilon ε": "The limit of differential privacy. A small one protects well and costs accuracy; 1 means "
    "at most 2.72 times more likely.",
    "delta δ": "The probability with which the limit may fail.",
    "Signal DP": "Differential privacy for an agent's own signals.",
    "Network DP": "The same for a neighbour's estimate, too, as seen in an agent's next message.",
    "sensitivity Δ": "How far the statistic can move when a signal does: the noise is sized by it.",
    "smooth sensitivity": "A sensitivity that depends on the signal and so needs less noise; private only if "
    "it changes slowly from one signal to the next.",
    "Laplace noise": "Random noise of scale Δ/ε, which gives differential privacy with ε.",
    "total error (TE)": "How far estimates with noise are from what they should be.",
    "cost of privacy (CoP)": "The part of the error that the noise adds.",
    "cost of decentralisation (CoD)": "The part that is left without noise, because mixing is not over or "
    "samples are few.",
    "l2 norm": "The root of the sum of squares over all agents: larger networks have larger ones.",
    "MVUE": "The unbiased estimate with the least variance: what agents would compute if each knew all "
    "signals.",
    "E ξ": "The expectation of the statistic: what a stream of signals tends to.",
    "replica": "One of several runs with other random numbers; curves are their mean.",
    "first-order method": "The method that the paper compares with: steps along a noisy gradient.",
    "push-sum": "Averaging that stays right on one-way links, by a weight that travels along.",
    "erratum": "A mistake of the paper, with its derivation, in docs/errata.md of veilsum.",
}
_SIGNS = {
    r"\eps": "ε", r"\delta": "δ", r"\Delta": "Δ", r"\beta": "β", r"\to": " → ",
    r"\infty": "∞", r"\in": "∈", r"\Nbb": "N", r"\approx": "≈", r"\times": "\N{MULTIPLICATION SIGN}",
}  # fmt: skip
_REFERENCE = re.compile(r"\\cref\{[^}]*\}")
_ACCENT = re.compile(r"\\(?:o?vec)\s*")
_COMMAND = re.compile(r"\\[A-Za-z]+")


def readable(quote: str) -> str:
    """A quote from the paper's LaTeX source as a reader sees it in print, references as [...].

    Parameters
    ----------
    quote
        As it is in the source.

    Returns
    -------
    str
        Without dollar signs and commands.

    Examples
    --------
    >>> readable(r"The following hold for \\cref{alg:x}, as $n\\to\\infty$ and $(\\eps, \\delta)$-DP")
    'The following hold for [...], as n → ∞ and (ε, δ)-DP'
    """
    text = _ACCENT.sub("", _REFERENCE.sub("[...]", quote.replace("$", "")))
    text = _COMMAND.sub(lambda found: _SIGNS.get(found[0], found[0][1:]), text)
    return " ".join(text.split())


def quick_note() -> Markup:
    """What a quick reproduction cannot say."""
    text = (
        "This is a quick reproduction, of at most 20 rounds and 2 replicas: it shows that everything "
        "runs. Verdicts are those of a full one, without --quick."
    )
    return element("span", text, class_="stop")
