"""The labels of the authors' program, written down again: by our id, and what their map makes of them."""

import re

_TEXTS = {
    "question_missing_vote": "Question a player on why he didn’t vote for the last team.",
    "question_changed_statements": "Question a player about why they changed their statements.",
    "question_leader_pick": "Question the leader why they selected a particular player for the team.",
    "question_leader_absence": "Question the leader why they didn’t put themselves on the quest team.",
    "defend_team": "Defend the proposed team composition if it includes loyal players.",
    "defend_self": "Defend yourself against allegations that you could be evil.",
    "defend_teammate": "Defend your teammate against allegations that they could be evil.",
    "share_concerns_evil": "Share concerns about an evil player.",
    "concern_failed_quest_member": "Express concerns about a player from a failed quest team and suggest to "
    "not include them in current team.",
    "cast_suspicion": "Cast suspicion on innocent players.",
    "counter_not_on_team": "Counter the team proposal because you are good and not part of the team.",
    "counter_evil_on_team": "Counter the team proposal because you think a player on the team is evil.",
    "disagree_not_on_team": "Express disagreement and vote disagree only if you are not in "
    "the proposed team.",
    "stay_hidden": "Stay hidden in discussions and act like a Loyal Servant to protect yourself.",
    "express_no_information": "Express that you don’t have any information on whom to put on the team to "
    "protect yourself.",
    "pretend_no_information": "Pretend that you don’t have enough information about who is evil right now.",
    "pretend_percival": "Pretend to be Percival by telling others you are Percival.",
    "pretend_merlin_hints": "Pretend to be Merlin by providing hints on who is evil.",
    "act_like_merlin": "Pretend to have information and act like Merlin.",
    "express_loyalty": "Express you are a loyal player.",
    "express_confusion_failure": "Express confusion for failure of mission.",
    "convince_leader": "Strongly convince the team leader to choose you on team.",
    "reveal_percival": "Reveal identity by telling others you are Percival to persuade other loyal players.",
    "reveal_servant": "Reveal identity by telling others you are Servant to persuade other loyal players.",
    "support_proposal": "Support team proposal.",
    "support_loyal_player": "Support one loyal player.",
    "support_teammate_on_team": "Support your teammate to be on the quest team.",
    "vouch_for_teammate": "Support your teammate by expressing that he is good.",
    "include_loyal_as_leader": "Include loyal players on the quest team as leader.",
    "hint_about_evil": "Provide hints to loyal players about evil players.",
    "support_failed_team_loyals": "Support loyal players of the previous quest team if the mission failed.",
}

RELEASED = _TEXTS
"""The label by our id."""


def plain(label: str) -> str:
    return re.sub(r"[^a-zA-Z\s]", "", label).lower()


PARAPHRASES = {
    "Support loyal players": "support one loyal player",
    "Question leaders choice": "question the leader why they selected a particular player for the team",
    "Stay hidden": "stay hidden in discussions and act like a loyal servant to protect yourself",
    "Express loyalty": "express you are a loyal player",
}
"""Wordings that no menu holds, and what the released map makes of them."""

CANONICAL = {plain(text): plain(text) for text in _TEXTS.values()} | {
    plain(text): canonical for text, canonical in PARAPHRASES.items()
}
CANONICAL[plain(_TEXTS["concern_failed_quest_member"])] = (
    "express concerns about a player from a failed quest team and suggest to remove them from current team"
)
CANONICAL[plain(_TEXTS["counter_not_on_team"])] = (
    "counter the team proposal citing that you are good and not part of the team"
)
CANONICAL[plain(_TEXTS["counter_evil_on_team"])] = (
    "counter the team proposal citing that you think a player on the team is evil"
)
"""Plain text → what the map makes of it; what is not in it is dropped."""
