"""A scripted seat's explanations: the reasons for its choices, and the answers in its summaries."""

from collections.abc import Mapping, Sequence
from typing import Final

from agents.scripted.notebook import Notebook, moves_in
from agents.scripted.speech import Scene, listed, sentence, when
from engine.state import Table
from engine.terms import Role, Seat, Side

__all__ = ["percent", "reason_for_shot", "reason_for_team", "reason_for_vote", "reconsideration", "summary"]


def percent(chance: float) -> str:
    """The chance in whole per cent, halves rounded up."""
    return f"{int(chance * 100 + 0.5)} %"


def reason_for_team(book: Notebook, table: Table, team: tuple[Seat, ...]) -> str:
    """The leader's private reason for proposing this team."""
    names = listed(book.names, team)
    if book.side is Side.EVIL:
        ours = tuple(seat for seat in team if seat == book.seat or seat in book.mates)
        with_us = f"{listed(book.names, ours)} can fail it" if ours else "nobody I know of can fail it"
        return f"{names}: {with_us}, and the others look clean."
    safe = book.deals.safe(team, table.profile.fails_needed[table.round - 1])
    return f"{names}: safe from evil with {percent(safe)}, as I see it; with me on it I know of none safer."


def reason_for_vote(book: Notebook, table: Table, approves: bool, safe: float) -> str:
    """The seat's private reason for its vote."""
    team = listed(book.names, table.team)
    word = "approve" if approves else "reject"
    if book.side is Side.EVIL:
        grip = "evil can fail it" if safe < 0.5 else "evil cannot fail it"
        cover = "" if approves == (safe < 0.5) else " My vote is cover."
        return f"I {word} the team of {team}: {grip}.{cover}"
    if table.attempt == table.profile.max_rejections and approves:
        return f"I approve the team of {team}: another rejection would cost us more than this team can."
    return f"I {word} the team of {team}: it is safe from evil with {percent(safe)}, as I see it."


def reason_for_shot(book: Notebook, target: Seat | None, chances: Mapping[Seat, float]) -> str:
    """The shooter's private reason for choosing its target, or for holding fire."""
    if target is None:
        return f"I hold fire: the likeliest Merlin is one with only {percent(max(chances.values()))}."
    name = book.names[target - 1]
    return f"{name} voted and spoke most like one who knows us: Merlin with {percent(chances[target])}."


def reconsideration(scene: Scene, team: tuple[Seat, ...]) -> str:
    """The leader's speech as it keeps or changes the team, with answers to questions."""
    before = scene.team
    book = scene.book
    if team == before:
        parts = [f"I keep {listed(book.names, team)} for {scene.common['quest']}."]
    else:
        out = tuple(seat for seat in before if seat not in team)
        into = tuple(seat for seat in team if seat not in before)
        doubted, instead = listed(book.names, out), listed(book.names, into)
        parts = [
            f"I heard your doubts about {doubted}, so {instead} goes on {scene.common['quest']} instead."
        ]
    asked = _asked_about(scene)
    for seat in asked:
        if seat in team and seat != scene.me:
            parts.append(f"You asked about {book.names[seat - 1]}: {scene.credit(seat)}.")
            break
    else:
        if scene.me in team:
            parts.append(sentence(f"As for me, {scene.record()}."))
    return " ".join(parts)


def _asked_about(scene: Scene) -> list[Seat]:
    """The seats that other seats asked the leader about in this attempt, earliest first; a seat may come
    twice.
    """
    attempt = (scene.table.round, scene.table.attempt)
    return [
        seat
        for speech in scene.book.speeches
        if (speech.round, speech.attempt) == attempt and speech.seat != scene.me
        for move in moves_in(speech.text, scene.book.names)
        if move.act == "ask_pick"
        for seat in move.seats
        if seat != scene.me
    ]


def summary(book: Notebook, table: Table) -> tuple[tuple[str, str], ...]:
    """(question, answer) for each fixed question at the end of an attempt or a quest."""
    names = book.names
    tally = table.tallies[-1]
    team = listed(names, tally.team)
    against = tuple(seat for seat, vote in enumerate(tally.votes, 1) if vote is False)
    return (
        ("leader", names[tally.leader - 1]),
        ("team", team),
        ("why_team", _why_team(book, table)),
        ("disagreed", _disagreed(book, against)),
        ("result", _result(book, table)),
        ("claims", _claims(book)),
        *(_of_evil(book) if book.side is Side.EVIL else (("suspects", _suspects(book)),)),
        ("open", _open(book, table)),
        ("next", _next(book, table)),
    )


def _why_team(book: Notebook, table: Table) -> str:
    tally = table.tallies[-1]
    leader = book.names[tally.leader - 1]
    if tally.leader == book.seat:
        return "It was my own choice."
    own = "with itself on it" if tally.leader in tally.team else "without itself"
    after = (
        "" if tally.proposed == tally.team else f", after first naming {listed(book.names, tally.proposed)}"
    )
    return f"{leader} chose it {own}{after}."


def _disagreed(book: Notebook, against: tuple[Seat, ...]) -> str:
    if not against:
        return "Nobody voted against it."
    evil = book.evil()
    likely = tuple(seat for seat in against if seat != book.seat and evil[seat - 1] >= 0.5)
    opinion = f"; I take {listed(book.names, likely)} for evil" if likely else ""
    return f"{listed(book.names, against)} voted against it{opinion}."


def _result(book: Notebook, table: Table) -> str:
    tally = table.tallies[-1]
    if not table.quests or table.quests[-1].round != table.round:
        return f"The team of {when(tally)} was rejected."
    quest = table.quests[-1]
    word = "succeeded" if quest.succeeded else "failed"
    cards = "fail card" if quest.fails == 1 else "fail cards"
    fails = "" if quest.fails is None else f" with {quest.fails} {cards}"
    return f"Quest {quest.round} {word}{fails}; {table.succeeded} succeeded and {table.failed} failed so far."


def _suspects(book: Notebook) -> str:
    evil = book.evil()
    others = [seat for seat in range(1, book.players + 1) if seat != book.seat]
    likely = sorted(others, key=lambda seat: (-round(evil[seat - 1], 6), seat))[: book.profile.evil_seats]
    return ", ".join(f"{book.names[seat - 1]} with {percent(evil[seat - 1])}" for seat in likely)


_CLAIMED: Final = {"claim_percival": "Percival", "claim_servant": "a Servant", "claim_loyal": "loyal"}


def _claims(book: Notebook) -> str:
    """The latest claim to a role of each other seat, in seat order."""
    claimed: dict[Seat, str] = {}
    for speech in book.speeches:
        if speech.seat != book.seat:
            for move in moves_in(speech.text, book.names):
                if move.act in _CLAIMED:
                    claimed[speech.seat] = _CLAIMED[move.act]
    claims = [f"{book.names[seat - 1]} claims to be {claimed[seat]}" for seat in sorted(claimed)]
    return f"{'; '.join(claims)}." if claims else "Nobody has claimed a role."


def _open(book: Notebook, table: Table) -> str:
    """A sentence that names the seats which asked this seat something in this attempt."""
    attempt = (table.round, table.attempt)
    me = book.seat
    asking = [
        speech.seat
        for speech in book.speeches
        if (speech.round, speech.attempt) == attempt
        and speech.seat != me
        and any(
            move.act.startswith("ask_") and move.seats[:1] == (me,)
            for move in moves_in(speech.text, book.names)
        )
    ]
    if not asking:
        return "Nobody waits for an answer of mine."
    waiting = "waits" if len(asking) == 1 else "wait"
    return f"{listed(book.names, tuple(asking))} {waiting} for an answer of mine."


def _of_evil(book: Notebook) -> tuple[tuple[str, str], ...]:
    merlin = _likeliest_merlin(book) if book.profile.assassination != "none" else ""
    guess = (("merlin", f"{merlin} most likely, by the votes and the teams."),) if merlin else ()
    return (_exposed(book), *guess)


def _exposed(book: Notebook) -> tuple[str, str]:
    looks = book.looks()
    ours = sorted({book.seat, *book.mates})
    seat = max(ours, key=lambda member: (round(looks[member - 1], 6), -member))
    who = "I look" if seat == book.seat else f"{book.names[seat - 1]} looks"
    do = (
        "say little and let a quest pass"
        if seat == book.seat
        else "keep my distance and let others speak first"
    )
    return "protect", f"{who} evil with {percent(looks[seat - 1])}: {do}."


def _next(book: Notebook, table: Table) -> str:
    left = 3 - (table.failed if book.side is Side.EVIL else table.succeeded)
    many = "quest" if left == 1 else "quests"
    if book.side is Side.EVIL:
        merlin = _likeliest_merlin(book)
        hunt = f" Watch {merlin}, who may be Merlin." if merlin else ""
        return f"We need {left} more failed {many}.{hunt}"
    evil = book.evil()
    others = [seat for seat in range(1, book.players + 1) if seat != book.seat]
    trusted: Sequence[Seat] = sorted(others, key=lambda seat: (round(evil[seat - 1], 6), seat))[:2]
    return f"We need {left} more successful {many}, with {listed(book.names, tuple(trusted))} on the teams."


def _likeliest_merlin(book: Notebook) -> str:
    if Role.MERLIN not in book.profile.roles:
        return ""
    chances = book.deals.merlin()
    return book.names[chances.index(max(chances))]
