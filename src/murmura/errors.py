"""What murmura raises and what it warns of.

A message names the thing, its value, what was expected and the remedy. A signal is named by its
agent and row, never by its value: an error message is a release too.
"""

from __future__ import annotations


class MurmuraError(Exception):
    """Base of every error that murmura raises on purpose."""


class NetworkError(MurmuraError, ValueError):
    """A graph, a weight matrix or a schedule that cannot carry an estimate."""


class FamilyError(MurmuraError, ValueError):
    """A family, a parameter or a bound that makes no sense."""


class SignalError(MurmuraError, ValueError):
    """Signals that are missing, repeated, not finite or outside the support."""


class PrivacyError(MurmuraError, ValueError):
    """A promise that cannot be made, such as noise for an infinite sensitivity."""


class LawError(MurmuraError, ValueError):
    """A law that does not exist or does not fit the network or the signals."""


class ScenarioError(MurmuraError, ValueError):
    """A scenario that does not say what it should."""


class CommandError(MurmuraError, ValueError):
    """A command whose options do not go together, or have values that make no sense."""


class CostError(MurmuraError):
    """A run that does not fit the memory of this machine."""


class AgentError(MurmuraError):
    """An agent that cannot run as asked, or must not."""


class LedgerError(AgentError):
    """A ledger that cannot be trusted or written: nothing is released without it."""


class MissingExtraError(MurmuraError, ImportError):
    """An optional dependency that the call needs and the environment lacks."""


class MurmuraWarning(UserWarning):
    """Base of every warning that murmura gives."""


class CostWarning(MurmuraWarning):
    """The run asked for takes hours."""


class LimitWarning(MurmuraWarning):
    """The answer holds for less than it may seem: readings left out, bounds that bite."""


class DivergenceWarning(MurmuraWarning):
    """The rule asked for is known not to converge."""


class PrivacyWarning(MurmuraWarning):
    """The promise asked for is not proved, or is known not to hold."""
