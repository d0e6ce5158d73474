"""Whose model may see whose words, as one pure function.

Three things hold whatever the state of the world: a cloud provider receives only what it served itself,
nothing goes from a local provider to a cloud one, and the builtin summarizer never extracts. Being slow is
allowed, leaking is not.

1. Work goes to the provider that served the thread's latest run. A cloud is sent only runs that it served itself, and
   summaries of such runs alone; what it may not have goes to the local fallback, else to the builtin summarizer.
2. Where that provider cannot be asked now, the local fallback is; where neither can, the work waits. After an hour the
   builtin summarizer folds, and extraction goes on waiting.
3. Nothing goes from a local provider to a cloud one.
4. Where work goes to another provider than the runs', it is said, once for each.
5. A name that nobody configured goes to the local fallback, else to the builtin summarizer, and that is told. Without
   any name there is nothing to tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum

from memsvc.model import NoticeKind, OpKind

BUILTIN = "builtin"
"""The extractive summarizer's name, which no configured provider may bear."""

NO_PROVIDER = "NO_PROVIDER"
"""The reason of a SKIP: no model that is configured may ever see these runs."""


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """A configured provider as it is now.

    `local` is what the configuration says: the words stay on machines of the deployment. `usable` means
    that a call may be made now (its key is there and it is not being left alone); if not, `reason` says
    why.
    """

    name: str
    local: bool
    usable: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """What a model is wanted for.

    `served_by` holds the effective provider of every run whose words would be sent, those behind the
    summary that would be sent along included; an empty name stands for runs of which nobody knows who
    served them. `latest` is the effective provider of the thread's latest run, empty when no run of the
    thread has named one.
    """

    kind: OpKind
    served_by: Set[str]
    latest: str


class Action(Enum):
    """What to do with the work now."""

    USE = "use"
    """Send it to `Choice.provider`."""
    WAIT = "wait"
    """Leave it due and try again later; it may be possible then."""
    SKIP = "skip"
    """Call it done without a call: with this configuration it never becomes possible (extraction alone)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where work goes. `provider` is set for USE, `reason` for WAIT and SKIP.

    `notice` is what the scope's user should be told once, with `from_provider` (whose words or whose
    unknown name) and `to_provider` (where they go instead).
    """

    action: Action
    provider: str = ""
    reason: str = ""
    notice: NoticeKind | None = None
    from_provider: str = ""
    to_provider: str = ""


def may_receive(provider: ProviderFacts, served_by: Set[str]) -> bool:
    """Tells whether words of runs that `served_by` served may be sent to `provider` at all (rules 1 and 3).

    A local provider may see everything. A cloud provider sees only what it has seen already, so runs whose
    provider is unknown are not for it either. Jobs that can choose which runs to send together (extraction)
    ask this first.
    """
    return provider.local or served_by <= {provider.name}


def choose(
    work: Work, providers: Mapping[str, ProviderFacts], local_fallback: str = "", overdue: bool = False
) -> Choice:
    """Says which provider gets `work` now, by the rules above.

    `providers` holds every configured provider by its name; `local_fallback` names one of them or is empty,
    and is ignored if that one is not local. `overdue` means that the work has waited as long as it should
    (an hour).

    Choose again after a failed call: the failure may have been the one after which the provider is left
    alone, and only then do rule 2's fallback and rule 2's hour apply.
    """
    own = providers.get(work.latest)
    fallback = providers.get(local_fallback)
    if fallback is not None and not fallback.local:
        fallback = None

    if own is not None and may_receive(own, work.served_by):
        # Rule 1: the provider that served the thread's latest run.
        if own.usable:
            return _use(work, providers, own.name)
        # Rule 2: that one cannot be asked now, the local fallback can; or neither can, and the work waits.
        if fallback is not None and fallback.usable:
            return _use(work, providers, fallback.name)
        return _late(work, providers, own.reason, overdue)

    # From here the latest run's provider is out of the question for good: a cloud that did not serve all of
    # this (rules 1 and 3), a name that nobody configured, or no name at all (rule 5).
    if fallback is None:
        return _without_model(work, providers)
    if fallback.usable:
        return _use(work, providers, fallback.name)
    return _late(work, providers, fallback.reason, overdue)  # The fallback is what rule 2 waits for here.


def _late(work: Work, providers: Mapping[str, ProviderFacts], reason: str, overdue: bool) -> Choice:
    """Rule 2's second half: wait; after the hour the builtin summarizer folds, while extraction goes on
    waiting.
    """
    if overdue and work.kind is OpKind.FOLD:
        return _use(work, providers, BUILTIN)
    return Choice(Action.WAIT, reason=reason)


def _without_model(work: Work, providers: Mapping[str, ProviderFacts]) -> Choice:
    """Rules 1 and 5 at their end: no model may do it, so the builtin summarizer folds and nobody extracts.

    An unknown name is told here too, in the words that folding uses, so that both lead to one notice.
    """
    if work.kind is OpKind.FOLD:
        return _use(work, providers, BUILTIN)
    if work.latest and work.latest not in providers:
        return Choice(
            Action.SKIP,
            reason=NO_PROVIDER,
            notice=NoticeKind.UNKNOWN_PROVIDER,
            from_provider=work.latest,
            to_provider=BUILTIN,
        )
    return Choice(Action.SKIP, reason=NO_PROVIDER)


def _use(work: Work, providers: Mapping[str, ProviderFacts], target: str) -> Choice:
    """Sends the work to `target` and says so where rule 4 wants it said.

    An unknown name is told as such. Otherwise it is a change when anything sent was served by another than
    `target`; runs that name nobody count as the latest run's. Rule 5: without any name there is nothing to
    tell.
    """
    if not work.latest:
        return Choice(Action.USE, target)
    if work.latest not in providers:
        return Choice(
            Action.USE,
            target,
            notice=NoticeKind.UNKNOWN_PROVIDER,
            from_provider=work.latest,
            to_provider=target,
        )
    others = ({name for name in work.served_by if name} or {work.latest}) - {target}
    if not others:
        return Choice(Action.USE, target)
    return Choice(
        Action.USE,
        target,
        notice=NoticeKind.PROVIDER_CHANGE,
        from_provider=work.latest if work.latest in others else min(others),
        to_provider=target,
    )
