"""The deal: uniform, fixed by the seed or by hand, and hidden from agents."""

from collections import Counter

import pytest

from engine.chance import draw, secret
from engine.errors import InvalidProfile
from engine.events import AgentsSeated, ProposalOpened, RolesDealt, payload
from engine.profile import default_roles, make_profile
from engine.rules import create
from engine.seated import SeatedAgent
from engine.state import fold
from engine.terms import EVIL_ROLES, PUBLIC, Role
from engine.view import project

OFFICIAL = make_profile("official")


def dealt(seed: int, players: int = 5) -> tuple[Role, ...]:
    roles = fold(create(make_profile("official", players), seed)).roles
    assert roles is not None
    return roles


def test_every_deal_is_as_likely_as_any_other() -> None:
    # 120 deals of five different roles, 12,000 seeds: chi-square has 119 degrees of freedom; it
    # exceeds 194 once in 100,000 times.
    counts = Counter(dealt(seed) for seed in range(12_000))
    assert len(counts) == 120
    assert sum((n - 100) ** 2 / 100 for n in counts.values()) < 194


def test_every_role_is_as_likely_in_every_seat_of_ten() -> None:
    # 2,000 deals of ten: 10 x 8 cells would be uneven; each seat holds Merlin 200 times, sd 13.4.
    counts = Counter(dealt(seed, 10).index(Role.MERLIN) for seed in range(2_000))
    assert len(counts) == 10
    assert all(abs(n - 200) < 70 for n in counts.values())


def test_the_first_leader_is_drawn_evenly_where_the_profile_names_none() -> None:
    leaders = Counter(create(OFFICIAL, seed)[-1].leader for seed in range(2_000))  # type: ignore[union-attr]
    assert sorted(leaders) == [1, 2, 3, 4, 5]
    assert all(abs(n - 400) < 90 for n in leaders.values())  # sd 18


def test_the_first_leader_tells_nothing_of_the_deal() -> None:
    # Merlin leads first in a fifth of the games: 400 of 2,000, sd 18.
    leads = 0
    for seed in range(2_000):
        log = create(OFFICIAL, seed)
        roles = next(event.roles for event in log if type(event) is RolesDealt)
        leads += roles[log[-1].leader - 1] is Role.MERLIN  # type: ignore[union-attr]
    assert abs(leads - 400) < 90


def test_seat_one_leads_interintent_first() -> None:
    assert {create(make_profile("interintent"), seed)[-1] for seed in range(20)} == {ProposalOpened(1, 1, 1)}


@pytest.mark.parametrize("players", range(5, 11))
def test_the_default_deal_holds_the_roles_of_the_paper(players: int) -> None:
    five = ["merlin", "percival", "servant", "morgana", "assassin"]
    more = ["servant", "minion", "servant", "servant", "minion"]
    roles = default_roles(players)
    assert Counter(map(str, roles)) == Counter(five + more[: players - 5])
    assert sum(role in EVIL_ROLES for role in roles) == {5: 2, 6: 2, 7: 3, 8: 3, 9: 3, 10: 4}[players]


def test_a_deal_fixes_who_holds_what() -> None:
    deal = [Role.MORGANA, Role.SERVANT, Role.MERLIN, Role.ASSASSIN, Role.PERCIVAL]
    assert {fold(create(OFFICIAL, seed, deal=deal)).roles for seed in range(10)} == {tuple(deal)}


def test_a_deal_by_name_is_a_deal_of_roles() -> None:
    names = ["morgana", "servant", "merlin", "assassin", "percival"]
    roles = fold(create(OFFICIAL, 1, deal=names)).roles  # type: ignore[arg-type]
    assert roles is not None
    assert all(type(role) is Role for role in roles)


def test_a_deal_leaves_the_first_leader_to_the_seed() -> None:
    deal = list(OFFICIAL.roles)
    assert [create(OFFICIAL, s, deal=deal)[-1] for s in range(9)] == [
        create(OFFICIAL, s)[-1] for s in range(9)
    ]


@pytest.mark.parametrize(
    "deal",
    [
        [],
        ["merlin"] * 5,
        ["merlin", "percival", "servant", "assassin"],
        ["merlin", "percival", "servant", "assassin", "mordred"],
        ["merlin", "percival", "servant", "assassin", "nobody"],
        ["merlin", "percival", "servant", "assassin", "morgana", "servant"],
    ],
)
def test_a_deal_other_than_the_deck_is_refused(deal: list[Role]) -> None:
    with pytest.raises(InvalidProfile, match="the deal must hold") as refusal:
        create(OFFICIAL, 1, deal=deal)
    assert refusal.value.pointer == "/deal"


def test_without_a_seed_everything_must_be_given() -> None:
    deal = list(OFFICIAL.roles)
    with pytest.raises(InvalidProfile) as refusal:
        create(OFFICIAL, None)
    assert refusal.value.pointer == "/deal"
    with pytest.raises(InvalidProfile) as refusal:
        create(OFFICIAL, None, deal=deal)
    assert refusal.value.pointer == "/rules/first_leader"
    assert create(make_profile("official", rules={"first_leader": 2}), None, deal=deal)[-1] == ProposalOpened(
        1, 1, 2
    )


def test_as_many_names_as_players_are_taken() -> None:
    assert create(OFFICIAL, 1, names=list("abcde"))[0].names == ("a", "b", "c", "d", "e")  # type: ignore[union-attr]
    for names in ([], ["a"], list("abcdef")):
        with pytest.raises(InvalidProfile) as refusal:
            create(OFFICIAL, 1, names=names)
        assert refusal.value.pointer == "/names"


def test_an_agents_secret_is_none_of_the_draws_for_the_deal() -> None:
    # What a seat is handed must not help to compute the deal, the leader or another seat's secret.
    secrets = {secret(5, "agent", seat) for seat in range(1, 11)}
    assert len(secrets) == 10
    assert all(
        f"{draw(5, purpose):016x}" not in one for one in secrets for purpose in ("deal", "first_leader")
    )


def test_the_seed_is_seen_by_full_alone() -> None:
    seed = 0x5EED5EED5EED5EED5EED
    for event in create(OFFICIAL, seed):
        if event.seen_by != "full":
            assert str(seed) not in repr(event)


AGENTS = (
    SeatedAgent("llm", "main", "gpt-x", {"mechanism": "paper"}),
    *[SeatedAgent("random", None, None, {})] * 4,
)


def test_the_agents_are_recorded_for_researchers_and_change_nothing_else() -> None:
    plain, told = create(OFFICIAL, 5), create(OFFICIAL, 5, agents=AGENTS)
    assert told == (*plain[:-1], AgentsSeated(AGENTS), plain[-1])
    for viewer in (PUBLIC, *OFFICIAL.seats):
        assert project(told, viewer) == project(plain, viewer)
    one, other = fold(plain), fold(told)
    assert (one.table, one.hands, one.public) == (other.table, other.hands, other.public)


def test_a_record_of_agents_names_them_by_seat() -> None:
    agents = payload(AgentsSeated(AGENTS))["agents"]
    assert list(agents) == ["1", "2", "3", "4", "5"]
    assert agents["1"] == {
        "agent": "llm",
        "endpoint": "main",
        "model": "gpt-x",
        "parameters": {"mechanism": "paper"},
    }
    assert agents["5"] == {"agent": "random", "endpoint": None, "model": None, "parameters": {}}
