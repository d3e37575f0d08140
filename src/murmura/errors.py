"""The exceptions that murmura raises and the warnings that it issues.

A message names the argument, its value, what was expected and the remedy. A signal is named by its
agent and row, never by its value: an error message is a release too.

Every exception derives from `MurmuraError`, and those for invalid input from `ValueError` as well:

>>> from murmura.privacy import SignalDP
>>> try:
...     SignalDP(epsilon=-1.0)
... except MurmuraError as error:
...     print(type(error).__name__, "-", error)
PrivacyError - epsilon must be a finite number above 0; found -1.0
"""

from __future__ import annotations


class MurmuraError(Exception):
    """Base class of every exception that murmura raises on purpose."""


class NetworkError(MurmuraError, ValueError):
    """An invalid graph, weight matrix or schedule."""


class FamilyError(MurmuraError, ValueError):
    """An invalid family, parameter or bound."""


class SignalError(MurmuraError, ValueError):
    """Signals that are missing, repeated, not finite or outside the support."""


class PrivacyError(MurmuraError, ValueError):
    """An invalid privacy request, or one that no finite noise satisfies."""


class AlgorithmError(MurmuraError, ValueError):
    """An unknown algorithm, or one that does not apply to the network or the signals."""


class ScenarioError(MurmuraError, ValueError):
    """A scenario with missing, unknown or invalid entries."""


class CommandError(MurmuraError, ValueError):
    """A command with incompatible or invalid options."""


class CostError(MurmuraError):
    """A run that does not fit the memory of this machine."""


class AgentError(MurmuraError):
    """An agent that cannot run as configured, or must not."""


class LedgerError(AgentError):
    """A ledger that fails verification or cannot be written: nothing is released without it."""


class MissingExtraError(MurmuraError, ImportError):
    """An optional dependency that the call needs is not installed."""


class MurmuraWarning(UserWarning):
    """Base class of every warning that murmura issues."""


class CostWarning(MurmuraWarning):
    """The requested run takes hours."""


class LimitWarning(MurmuraWarning):
    """The result covers less than the input: readings were dropped, or bounds were reached."""


class DivergenceWarning(MurmuraWarning):
    """The requested algorithm is known not to converge."""


class PrivacyWarning(MurmuraWarning):
    """The requested guarantee is not proved, or is known not to hold."""
