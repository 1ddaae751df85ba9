"""Tokens in proportion to weights, whatever the others send, and no claims saved up."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.scheduler.policies.exercises import Facts, make_ticket
from octavo.scheduler.policies.fair import Fair
from octavo.scheduler.policy import Ticket
from tests.scheduler.policies.drive import admit, service_order


class Weights(Facts):
    def __init__(self, weights: dict[str, float]) -> None:
        self.weights = weights

    def num_cached_tokens(self, ticket: Ticket) -> int:  # noqa: ARG002
        return 0

    def weight(self, tenant: str) -> float:
        return self.weights.get(tenant, 1.0)


def serve(policy: Fair, num_answer_tokens: int = 0) -> Ticket:
    """Admit the head, and compute its prompt and answer at once."""
    ticket = admit(policy)
    policy.charge(ticket, ticket.num_prompt_tokens)
    for _ in range(num_answer_tokens):
        policy.charge(ticket, 1)
    return ticket


def fill(policy: Fair, tenant: str, number: int, num_prompt_tokens: int = 100) -> None:
    for _ in range(number):
        policy.add(make_ticket(tenant=tenant, num_prompt_tokens=num_prompt_tokens), 0)


def test_inside_a_tenant_it_is_first_come_first_served() -> None:
    tickets = [make_ticket(tenant="x", num_prompt_tokens=number) for number in (300, 100, 200)]
    assert service_order(Fair(Weights({})), tickets) == tickets


def test_a_flood_does_not_delay_the_other_tenant_by_more_than_one_request() -> None:
    policy = Fair(Weights({}))
    fill(policy, "flood", 500)
    for _ in range(20):
        for _ in range(10):
            assert serve(policy, 50).tenant == "flood"
        fill(policy, "calm", 1)
        assert "calm" in {serve(policy, 50).tenant for _ in range(2)}


def test_a_burst_into_free_slots_is_not_admitted_from_one_tenant_alone() -> None:
    """Before anything is computed, so by what admission charges in advance."""
    policy = Fair(Weights({}))
    fill(policy, "first", 50)
    fill(policy, "second", 50)
    admitted = [admit(policy).tenant for _ in range(20)]
    assert admitted.count("second") == 10


def test_what_was_charged_in_advance_and_never_computed_is_given_back() -> None:
    """`quitter` gives up at the head of the line ten times, and is not poorer for it."""
    policy = Fair(Weights({}))
    fill(policy, "other", 200)
    fill(policy, "quitter", 200)
    gone = [ticket for ticket in (admit(policy) for _ in range(20)) if ticket.tenant == "quitter"]
    assert len(gone) == 10
    tokens = {"other": 1000, "quitter": 0}  # of the ten of `other`; nothing of the quitters
    for _ in range(10):
        policy.charge(make_ticket(tenant="other"), 100)
    for _ in range(100):
        tokens[serve(policy, 100).tenant] += 200
    assert abs(tokens["other"] - tokens["quitter"]) <= 1200


def test_a_tenant_that_was_away_saves_up_a_bounded_claim() -> None:
    """Five requests of 100 tokens, with a claim to 500, and then its share."""
    policy = Fair(Weights({}), max_claim=500)
    fill(policy, "away", 1)
    serve(policy)
    fill(policy, "steady", 300)
    for _ in range(100):
        serve(policy)
    fill(policy, "away", 100)
    assert [serve(policy).tenant for _ in range(5)] == ["away"] * 5
    served = [serve(policy).tenant for _ in range(20)]
    assert 9 <= served.count("away") <= 11


def test_a_tenant_that_is_new_has_no_claim() -> None:
    policy = Fair(Weights({}), max_claim=500)
    fill(policy, "steady", 300)
    for _ in range(100):
        serve(policy)
    fill(policy, "new", 100)
    served = [serve(policy).tenant for _ in range(20)]
    assert 9 <= served.count("new") <= 11


def test_who_used_an_idle_machine_is_not_punished_for_it() -> None:
    policy = Fair(Weights({}))
    for _ in range(100):
        fill(policy, "alone", 1)
        serve(policy, 500)
    fill(policy, "new", 50)
    fill(policy, "alone", 50)
    served = [serve(policy).tenant for _ in range(20)]
    assert served.count("alone") >= 9


def test_a_tenant_is_forgotten_when_that_makes_no_difference() -> None:
    policy = Fair(Weights({}))
    fill(policy, "steady", 20_000)
    for number in range(10_000):
        fill(policy, f"visitor-{number}", 1)
        serve(policy)
        serve(policy)
    assert len(policy._tenants) < 500
    assert len(policy._order) < 500


@settings(deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=2, max_size=4),
    lengths=st.lists(st.integers(1, 200), min_size=8, max_size=8),
    answers=st.integers(0, 20),
)
def test_tenants_that_always_wait_get_tokens_in_proportion_to_their_weights(
    weights: list[float], lengths: list[int], answers: int
) -> None:
    """Over any time, up to one largest request each and the turns of one round."""
    policy = Fair(Weights({str(number): weight for number, weight in enumerate(weights)}))
    num_turns = 200
    for number in range(len(weights)):
        for turn in range(num_turns):
            length = lengths[(turn * (number + 1)) % len(lengths)]
            policy.add(make_ticket(tenant=str(number), num_prompt_tokens=length), 0)
    served = [0.0] * len(weights)
    largest = max(lengths) + answers
    slack = largest / min(weights)
    round_of_turns = sum(weight / min(weights) * largest for weight in weights)
    for _ in range(num_turns):
        ticket = serve(policy, answers)
        tokens = ticket.num_prompt_tokens + answers
        served[int(ticket.tenant)] += tokens / weights[int(ticket.tenant)]
        assert max(served) - min(served) <= 2 * slack + round_of_turns
