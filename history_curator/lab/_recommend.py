"""Choose a policy: the cheapest that keeps what later calls needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from history_curator.errors import ConfigurationError

if TYPE_CHECKING:
    from history_curator.lab._results import PolicyResult, ReplayResults


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The policy to use, the frontier it was taken from, and why.

    ``str(recommendation)`` is a paragraph for a person.
    """

    name: str
    why: str
    frontier: tuple[str, ...]
    ruled_out: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.why


def frontier(results: Sequence[PolicyResult]) -> list[PolicyResult]:
    """Return the sound policies no other beats on both cost and regret, cheapest first.

    A policy with a request that is refused, over the budget or missing cannot be used, so it is
    not compared, unless every policy has one; then those that left no call without a view are.
    """
    results = (
        [each for each in results if each.sound]
        or [each for each in results if not each.failed]
        or results
    )
    best: list[PolicyResult] = []
    for each in sorted(results, key=lambda one: (one.cost, one.regret)):
        if not best or each.regret < best[-1].regret:
            best.append(each)
    return best


def recommend(results: ReplayResults, max_regret: float | None = None) -> Recommendation:
    """Return the policy to use.

    Only policies whose every request fits the budget and is accepted by the provider's rules are
    candidates, unless none is. Among those on the cost/regret frontier, the cheapest within
    ``max_regret`` wins, or when none is within it the one that loses least, and ``why`` says so;
    without a limit, the one nearest to the best cost and the best regret at once.

    Raises:
        ConfigurationError: when nothing was measured.

    Examples:
        >>> from history_curator.lab import replay
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> recommend(replay([talk], ["no curation"], progress=False, executor="serial")).name
        'no curation'
    """
    measured = [each for each in results.policies.values() if each.measured and each.tokens_sent]
    if not measured:
        raise ConfigurationError(_why_nothing(results))
    sound = [each for each in measured if each.sound]
    ruled_out = tuple((each.name, _fault(each)) for each in measured if not each.sound)
    candidates = sound or measured
    line = frontier(candidates)
    if max_regret is None:
        chosen = min(line, key=lambda each: _distance(each, line))
    else:
        within = [each for each in line if each.regret <= max_regret]
        chosen = within[0] if within else line[-1]
    why = _why(chosen, line, ruled_out, sound=bool(sound), pricing=results.pricing)
    if max_regret is not None and (not sound or chosen.regret > max_regret):
        why = f"{_beyond(chosen, max_regret)} {why}"
    return Recommendation(
        name=chosen.name,
        why=why,
        frontier=tuple(each.name for each in line),
        ruled_out=ruled_out,
    )


def _why_nothing(results: ReplayResults) -> str:
    if not any(each.calls for each in results.policies.values()):
        return (
            "there was no call to replay: no message of the assistant follows another one. "
            "Fix: pass conversations that a model has answered."
        )
    if refused := next((each for each in results.policies.values() if each.failed), None):
        return f"no policy made a single request. {refused.name}: {refused.note}"
    return "no policy was measured. Fix: install the peers, or add a curator of your own."


def _beyond(chosen: PolicyResult, max_regret: float) -> str:
    return (
        f"No sound policy stays within a regret of {max_regret:.2%}; the closest is "
        f"{chosen.name} ({chosen.regret:.2%})."
    )


def _distance(each: PolicyResult, line: Sequence[PolicyResult]) -> float:
    """Return how far a policy is from the best cost and the best regret on the frontier."""
    costs, regrets = [one.cost for one in line], [one.regret for one in line]
    span_cost = max(costs) - min(costs) or 1.0
    span_regret = max(regrets) - min(regrets) or 1.0
    cost = (each.cost - min(costs)) / span_cost
    regret = (each.regret - min(regrets)) / span_regret
    return float((cost**2 + regret**2) ** 0.5)


def _fault(each: PolicyResult) -> str:
    faults = [
        f"{count:,} {what}"
        for count, what in (
            (each.invalid, "requests the provider refuses"),
            (each.over_budget, "requests over the budget"),
            (each.failed, "calls without a view"),
        )
        if count
    ]
    return ", ".join(faults)


def _why(
    chosen: PolicyResult,
    line: Sequence[PolicyResult],
    ruled_out: Sequence[tuple[str, str]],
    *,
    sound: bool,
    pricing: str,
) -> str:
    first = (
        f"Use {chosen.name}: cost {chosen.cost:.3f} ({pricing}), regret {chosen.regret:.2%}, "
        f"{chosen.cached_share:.0%} of its tokens repeat the request before."
    )
    said = [first]
    for other in line:
        if other is chosen:
            continue
        if other.cost < chosen.cost:
            said.append(
                f"{other.name} is cheaper ({other.cost:.3f}) but loses more ({other.regret:.2%})."
            )
        else:
            said.append(f"{other.name} loses less ({other.regret:.2%}) but costs {other.cost:.3f}.")
    if not sound:
        said.append(
            "No policy kept every request within budget and valid; this one is the least bad."
        )
    elif ruled_out:
        said.append(
            "Ruled out: " + "; ".join(f"{name} ({fault})" for name, fault in ruled_out) + "."
        )
    return " ".join(said)
