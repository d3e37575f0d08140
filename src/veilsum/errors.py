"""The exceptions that veilsum raises and the warnings that it issues.

A message names the argument, its value, what was expected and the remedy. A signal is named by its
agent and row, never by its value: an error message is a release too.

Every exception derives from `VeilsumError`, and those for invalid input from `ValueError` as well:

>>> from veilsum.privacy import SignalDP
>>> try:
...     SignalDP(epsilon=-1.0)
... except VeilsumError as error:
...     print(type(error).__name__, "-", error)
PrivacyError - epsilon must be a finite number above 0; found -1.0
"""

from __future__ import annotations


class VeilsumError(Exception):
    """Base class of every exception that veilsum raises on purpose."""


class NetworkError(VeilsumError, ValueError):
    """An invalid graph, weight matrix or schedule."""


class FamilyError(VeilsumError, ValueError):
    """An invalid family, parameter or bound."""


class SignalError(VeilsumError, ValueError):
    """Signals that are missing, repeated, not finite or outside the support."""


class PrivacyError(VeilsumError, ValueError):
    """An invalid privacy request, or one that no finite noise satisfies."""


class QuestionError(VeilsumError, ValueError):
    """A question that cannot be asked as it is, or a table that it cannot be asked of."""


class AlgorithmError(VeilsumError, ValueError):
    """An unknown algorithm, or one that does not apply to the network or the signals."""


class ScenarioError(VeilsumError, ValueError):
    """A scenario with missing, unknown or invalid entries."""


class CommandError(VeilsumError, ValueError):
    """A command with incompatible or invalid options."""


class CostError(VeilsumError):
    """A run that does not fit the memory of this machine."""


class AgentError(VeilsumError):
    """An agent that cannot run as configured, or must not."""


class LedgerError(AgentError):
    """A ledger that fails verification or cannot be written: nothing is released without it."""


class FleetError(VeilsumError):
    """A fleet, a site or a post that is not as it must be."""


class StoreError(FleetError):
    """A store that did not do what it was asked."""


class StoreBusyError(StoreError):
    """A store that may do it later: too many requests, a time-out, a server's error."""


class StoreDeniedError(StoreError):
    """A store that does not let this site in, or does not let it write."""


class StoreFullError(StoreError):
    """A store without room."""


class StoppedError(FleetError):
    """A site that has stopped for good: another copy of it is alive, or was."""


class MissingExtraError(VeilsumError, ImportError):
    """An optional dependency that the call needs is not installed."""


class VeilsumWarning(UserWarning):
    """Base class of every warning that veilsum issues."""


class CostWarning(VeilsumWarning):
    """The requested run takes hours."""


class LimitWarning(VeilsumWarning):
    """The result covers less than the input: readings were dropped, or bounds were reached."""


class DivergenceWarning(VeilsumWarning):
    """The requested algorithm is known not to converge."""


class PrivacyWarning(VeilsumWarning):
    """The requested guarantee is not proved, or is known not to hold."""
