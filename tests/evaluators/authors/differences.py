"""The tables of docs/differences.md, made of the sample and of what the released scripts printed for it.

``python -m tests.evaluators.authors.differences`` writes them anew.
"""

import re
from pathlib import Path
from typing import Any

from evaluators.authors import figures
from evaluators.authors.labels import plain, released_label
from evaluators.authors.taking import turns_by_key
from tests.evaluators.authors.association import association_figures
from tests.evaluators.authors.folders import SAMPLE, sample_files, taken

DOCUMENT = Path(__file__).parents[3] / "docs" / "differences.md"

Rows = list[tuple[str, str, str]]

_CONCERN = "express concerns about a player from a failed quest team and suggest to not include them in "
_RELEASED = {f"{_CONCERN}the current team", "question a player on why they didnt vote for the last team"}
"""Two labels of the released impactful set."""

_IN_DATA = {f"{_CONCERN}current team", "question a player on why he didnt vote for the last team"}
"""The same intentions as the program offers them."""


def printed(section: str, pattern: str) -> list[str]:
    """What the released script printed under this heading, by the groups of the pattern."""
    text = (SAMPLE / "script_output.txt").read_text("utf-8")
    part = text.split(f"=== {section}\n")[1].split("\n=== ")[0]
    found = re.search(pattern, part, re.DOTALL)
    assert found, (section, pattern)
    return list(found.groups())


def stops(section: str) -> str:
    """The error with which a script ends."""
    (error,) = printed(section, r"\n(\w+Error): ")
    return f"stops with {error}"


def tables() -> dict[str, Rows]:
    """The rows of every table: figure, as released, ours."""
    run, converted = taken(sample_files())
    found: Any = figures(run, converted)
    association = association_figures(converted)
    turns = {game.name: turns_by_key(game) for game in converted}
    chosen = [
        released_label(choice.id)
        for of_game in turns.values()
        for turn in of_game.values()
        for choice in (() if turn.final is None else turn.final.chosen)
    ]
    gold = [sum(plain(label) in labels for label in chosen) for labels in (_RELEASED, _IN_DATA)]
    kept = [
        item
        for item in run.items["summaries.json"]
        if item.stage == "ref" and not turns[item.game][item.key, item.seat].changed
    ]
    summaries = len(run.items["summaries.json"])
    pooled = found["pooled"]
    measures = ("selection", "following_think", "following_speak")

    def share(name: str) -> str:
        one = pooled["figures"][name]
        return f"{one['num']}/{one['den']} = {100 * one['value']:.1f} %"

    def f1(kind: str, labels: str, scope: str = "pooled", counting: str = "as_released_counting") -> str:
        return f"{pooled['f1'][kind][labels][scope][counting]['f1']:.2f}"

    def kappas(section: str) -> str:
        means = (found["kappa"][section][f"{one}.pair_mean"]["value"] for one in measures)
        return ", ".join(f"{mean:.4f}" for mean in means)

    def higher(name: str, result: str) -> str:
        counts = pooled["which_side_higher"][name]["counts"][result]
        return f"evil {counts['evil']}, loyal {counts['loyal']}, equal {counts['equal']}"

    wins = printed("process_results", r"Loyal wins:\n.*?= Evil: (\d+), Loyal: (\d+), Equal: (\d+)")
    losses = printed("process_results", r"Evil wins:\n.*?= Evil: (\d+), Loyal: (\d+), Equal: (\d+)")
    loyal, evil = sum(map(int, wins)), sum(map(int, losses))
    games = loyal + evil
    modified = printed("process_results", r"modificaiton: ([\d.]+)% \((\S+)\)")
    selected = printed("process_results", r"\(reasonable\): ([\d.]+)% \((\S+)\)")
    changes = printed("team_reconsideration_results", r"(\d+) (\d+)\n(\d+) (\d+)\n")
    rounds = printed(
        "calc_guess_model_released", r"1 => f1score=(\S+)\n.*=(\S+)\n.*=(\S+)\nRound: 4 => f1score=(\S+)"
    )
    avg = "process_results_avg"
    success = printed(avg, r"Success rounds:\n\d+\nMore following = Evil: (\S+), Loyal: (\S+), Equal: (\S+)")
    failure = printed(avg, r"Failure rounds:\n\d+\nMore following = Evil: (\S+), Loyal: (\S+), Equal: (\S+)")
    empty = printed(avg, r"Loyal wins:\nMore following = Evil: (\d+), Loyal: (\d+), Equal: (\d+)")
    two = printed(
        "kappa_pairwise_2", r"selection = mean: (\S+),.*think = mean: (\S+),.*speech = mean: (\S+),"
    )
    items = found["guess_items"]
    human = printed("calc_guess_human_patched", r"overall unmapped guesses (\S+)")[0]
    model = printed("calc_guess_model_patched", r"overall \((\S+),")[0]
    cards, fails = printed("process_results", r"'total_votes': (\d+), 'fail_votes': (\d+)")
    summary = printed("calc_summ_human_patched", r"overall (\S+)")[0]
    return {
        "wins": [
            ("games won by loyal", f"{loyal}/{games}", share("loyal_final_win")),
            ("games won by evil", f"{evil}/{games}", share("evil_final_win")),
        ],
        "modification": [
            (
                "selections that modification changed",
                f"{modified[1]} = {modified[0]} %",
                share("intent_modification.changed"),
            ),
            ("turns that answered the step at all", "not printed", share("intent_modification.given")),
        ],
        "selection": [
            (
                "reasonable intentions",
                f"{selected[1]} = {selected[0]} %",
                share("selection.stage1_plus_changed"),
            )
        ],
        "proposals": [
            (
                "teams changed, evil leaders",
                f"{changes[0]}/{changes[1]}",
                share("proposal_changes_as_sets.evil"),
            ),
            (
                "teams changed, loyal leaders",
                f"{changes[2]}/{changes[3]}",
                share("proposal_changes_as_sets.loyal"),
            ),
        ],
        "rounds": [
            (
                f"second-order guessing F1, round {number}",
                released.rstrip("\n"),
                f1("second_order_vs_guesses", "canonical", f"round_{number}"),
            )
            for number, released in enumerate(rounds, 1)
        ],
        "stops": [
            (
                "guessing F1 of people",
                stops("calc_guess_human_released"),
                f1("guesses_vs_chosen", "canonical"),
            ),
            (
                "summarisation F1 of people",
                stops("calc_summ_human_released"),
                f1("summaries_vs_chosen", "canonical"),
            ),
            (
                "summarisation F1 of models",
                stops("calc_summ_model_released"),
                f1("summaries_vs_chosen", "canonical"),
            ),
            ("kappa, pairwise, three games", stops("kappa_pairwise_3"), kappas("pooled")),
            ("kappa, pairwise, two games", ", ".join(two), kappas("first_two_files")),
        ],
        "gold": [
            (
                "guessing F1",
                f"{float(model):.2f} (against the first guesser)",
                f"{f1('guesses_vs_chosen', 'canonical')} (against what was chosen)",
            ),
        ],
        "labels": [
            ("guessing F1, repaired, people's part", f"{float(human):.2f}", "-"),
            ("guessing F1, unmapped dropped", "-", f1("guesses_vs_chosen", "canonical")),
            ("guessing F1, unmapped counted", "-", f1("guesses_vs_chosen", "plain")),
            ("the same, each label once", "-", f1("guesses_vs_chosen", "plain", counting="as_sets")),
            ("summarisation F1, repaired", f"{float(summary):.2f}", f1("summaries_vs_chosen", "canonical")),
            ("the same, each label once", "-", f1("summaries_vs_chosen", "canonical", counting="as_sets")),
        ],
        "vanishing": [("final selections of the two intentions that can be gold", *map(str, gold))],
        "kept": [
            ("summaries of a refinement that kept the selection", str(len(kept)), "0"),
            ("all summaries that count", str(summaries), str(summaries - len(kept))),
        ],
        "association": [
            (
                f"Theil's U of {measure}, {association['quests']} quests",
                f"{association[measure]:.4f} (of the side, given the result)",
                f"{association[f'{measure} reversed']:.4f} (of the result, given the side)",
            )
            for measure in ("selection", "following")
        ],
        "crossed": [
            ("guessing items", str(items["by_released_script"]), str(items["by_correct_key"])),
            (
                "of them not in the other list",
                str(len(items["in_by_script_only"])),
                str(len(items["in_by_correct_key_only"])),
            ),
        ],
        "sides": [
            (
                "who follows more, successful quests",
                f"evil {success[0]}, loyal {success[1]}, equal {success[2]} (of reasonable ones)",
                higher("rounds_following", "success"),
            ),
            (
                "who follows more, failed quests",
                f"evil {failure[0]}, loyal {failure[1]}, equal {failure[2]} (of reasonable ones)",
                higher("rounds_following", "failure"),
            ),
            (
                "who selects more reasonably, successful quests",
                "under the heading above",
                higher("rounds_reasonable_role_mean", "success"),
            ),
            (
                "who selects more reasonably, failed quests",
                "under the heading above",
                higher("rounds_reasonable_role_mean", "failure"),
            ),
            (
                "who follows more, games with a loyal majority",
                f"evil {empty[0]}, loyal {empty[1]}, equal {empty[2]}",
                higher("games_following", "loyal"),
            ),
        ],
        "cards": [
            ("team places without a card", "not printed", share("actions_missing")),
            ("fail cards of evil", f"{fails}/{cards}", share("failure_votes.evil")),
        ],
    }


def rendered(rows: Rows) -> str:
    lines = ["| figure | as released | here |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def filled(document: str) -> str:
    """The document with every table as it should be."""
    for name, rows in tables().items():
        begin, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        before, marker, rest = document.partition(begin)
        assert marker, f"docs/differences.md has no place for the table {name}"
        after = rest[rest.index(end) :]
        document = f"{before}{marker}{rendered(rows)}\n{after}"
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(filled(DOCUMENT.read_text("utf-8")), "utf-8")
