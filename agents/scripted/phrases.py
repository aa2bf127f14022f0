"""The wording of scripted seats: the acts of speech, and the act and the wording of each intention.

A ``SpeechAct`` is what listeners hear. Several intentions may have the same act: Merlin's concern and an evil
seat's slander sound alike. Every line of an act contains one of its cues, by which other scripted seats
recognise it. Names in braces are filled in from the public record (see ``speech``).
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from engine.intentions import IntentionId

__all__ = ["ACTS", "WORDING", "SpeechAct", "Tone", "Wording"]

Tone = Literal["against", "for", "claim", "quiet", "ask", "self"]
"""The direction of an act: against or for its target, a claim to a role, keeping quiet, a question, or
something about the speaker alone."""


class SpeechAct(NamedTuple):
    cues: tuple[str, ...]
    """Words in lower case; each line contains one of the cues."""
    lines: tuple[str, ...]


class Wording(NamedTuple):
    act: str
    tone: Tone
    goal: str
    """The private goal of the seat."""
    reason: str
    """The seat's reason for selecting the intention."""


ACTS: Final[Mapping[str, SpeechAct]] = {
    "ask_vote": SpeechAct(
        ("why did you vote against", "explain the vote against", "turned down", "you rejected"),
        (
            "{x}, why did you vote against {then} on {when}?",
            "I would like {x} to explain the vote against {then} on {when}.",
            "On {when} {x} turned down {then}; what did you see there, {x}?",
            "{x}, you rejected {then} on {when}, and I still wait for a reason.",
        ),
    ),
    "ask_change": SpeechAct(
        ("change your mind", "which of the two", "do not follow the turn"),
        (
            "{x}, {change}; what made you change your mind?",
            "{x}, {change}, so which of the two did you mean?",
            "Help me, {x}: {change}, and I do not follow the turn.",
        ),
    ),
    "ask_pick": SpeechAct(
        ("what speaks for", "why did you pick", "came onto the team"),
        (
            "{leader}, what speaks for {x} on {when}?",
            "{leader}, why did you pick {x} for {when}?",
            "I want to hear from {leader} how {x} came onto the team for {when}.",
        ),
    ),
    "ask_absence": SpeechAct(
        ("on your own team", "leave yourself out", "stay at home"),
        (
            "{leader}, why are you not on your own team for {quest}?",
            "You lead but {team} is without you, {leader}; why leave yourself out?",
            "{leader}, you lead and still stay at home on {quest}; what is the thought?",
        ),
    ),
    "back_team": SpeechAct(
        ("i can support", "looks right to me", "let us send", "i stand by"),
        (
            "I can support {team} for {quest}.",
            "The team of {team} looks right to me for {quest}, and I mean to approve.",
            "Let us send {team} on {quest}; {good}.",
            "I stand by {team} for {quest}: {good}.",
        ),
    ),
    "defend_self": SpeechAct(
        ("no danger to", "doubts me", "nothing to fear from me"),
        (
            "I am no danger to {quest}: {record}.",
            "Whoever doubts me before {quest} should look at the record: {record}.",
            "You have nothing to fear from me on {quest}; {record}.",
        ),
    ),
    "vouch": SpeechAct(
        ("i trust", "as far as i can tell", "speak up for"),
        (
            "I trust {x}: {credit}.",
            "{x} is good as far as I can tell; {credit}.",
            "I would speak up for {x} at once: {credit}.",
        ),
    ),
    "defend_other": SpeechAct(
        ("do not blame", "too hard on", "hold it against"),
        (
            "Do not blame {x} too fast: {excuse}.",
            "I think we are too hard on {x}; {excuse}.",
            "I would not hold it against {x}, as {excuse}.",
        ),
    ),
    "recommend": SpeechAct(
        ("with us on", "belongs on", "my pick for"),
        (
            "I want {x} with us on {quest}; {credit}.",
            "{x} belongs on {quest}: {credit}.",
            "My pick for {quest} is {x}, as {credit}.",
        ),
    ),
    "worry": SpeechAct(
        ("i am worried about", "bothers me", "suspicion falls on", "hard to trust"),
        (
            "I am worried about {x}: {blame}.",
            "Something about {x} bothers me; {blame}.",
            "My suspicion falls on {x}, because {blame}.",
            "I find it hard to trust {x}: {blame}.",
        ),
    ),
    "hint": SpeechAct(
        ("keep an eye on", "where the danger sits", "take it from me"),
        (
            "Keep an eye on {x} during {quest}; {blame}.",
            "If you wonder where the danger sits, look at {x}: {blame}.",
            "Take it from me and leave {x} out of {quest}; {blame}.",
        ),
    ),
    "worry_failed": SpeechAct(
        ("which failed, so", "please leave", "would not send"),
        (
            "{x} was on {failed}, which failed, so keep {x} off the team for {quest}.",
            "{failed} failed with {x} on it; please leave {x} out of {quest}.",
            "After {failed} failed with {x} on it I would not send {x} on {quest}; take somebody else.",
        ),
    ),
    "counter_off": SpeechAct(
        ("not the best team", "leaves out", "better with me"),
        (
            "I am good and I am not on it, so this is not the best team for {quest}.",
            "The team of {team} leaves out a good player, me, and so I ask for another team.",
            "{quest} would be better with me: I am good, and {team} would go without me.",
        ),
    ),
    "counter_evil": SpeechAct(
        ("i speak against", "cannot back this team", "looks evil to me"),
        (
            "I speak against {team}: I think {x} is evil, as {blame}.",
            "I take {x} for evil and cannot back this team; {blame}.",
            "{team} should not go together, since {x} looks evil to me: {blame}.",
        ),
    ),
    "disagree_off": SpeechAct(
        ("so i disagree", "my vote is no", "gets a rejection from me"),
        (
            "I am not on the team of {team}, so I disagree and will vote against it.",
            "{team} would go on {quest} without me, and so my vote is no.",
            "A team without me gets a rejection from me, and {team} make one.",
        ),
    ),
    "quiet": SpeechAct(
        ("before we judge", "i will listen to", "no strong view"),
        (
            "Let us see how {quest} goes before we judge anybody, {y} included.",
            "I will listen to {y} and make up my mind about {quest} then.",
            "I have no strong view on {quest} and am curious what {y} makes of it.",
        ),
    ),
    "no_team": SpeechAct(
        ("as good as mine", "nothing to go on", "no names to offer"),
        (
            "I do not know whom to put on {quest}; {y}, your guess is as good as mine.",
            "Do not ask me for a team for {quest}, I have nothing to go on, not even about {y}.",
            "I have no names to offer for {quest}; perhaps {y} has.",
        ),
    ),
    "no_evil": SpeechAct(
        ("cannot tell yet who is evil", "too early for me to say", "could be anybody"),
        (
            "I cannot tell yet who is evil, and {y} is as open to me as the rest.",
            "For {quest} it is too early for me to say who is evil; {y} may know more.",
            "Evil could be anybody before {quest}, {y} as well as others, for all I know.",
        ),
    ),
    "claim_percival": SpeechAct(
        ("i am percival", "percival is speaking", "as percival"),
        (
            "I am Percival, and I ask you to follow me on {quest}.",
            "You may know it now: Percival is speaking, and {quest} matters to me.",
            "As Percival I ask for your ear on {quest}.",
        ),
    ),
    "claim_servant": SpeechAct(
        ("i am a loyal servant", "my role is servant", "a plain servant"),
        (
            "I am a Loyal Servant and want {quest} to succeed: {record}.",
            "My role is Servant, so I go into {quest} without secrets; {record}.",
            "You see a plain Servant before {quest}, and {record}.",
        ),
    ),
    "claim_loyal": SpeechAct(
        ("i am loyal", "my loyalty", "on the loyal side"),
        (
            "I am loyal and want {quest} to succeed; {record}.",
            "Do count on my loyalty in {quest}: {record}.",
            "I stand on the loyal side, in {quest} as ever: {record}.",
        ),
    ),
    "confusion": SpeechAct(
        ("do not understand how", "surprised me", "i am puzzled by"),
        (
            "I do not understand how {failed} could fail with {then}.",
            "{failed} surprised me: it failed with {then}, and I had hoped for better.",
            "I am puzzled by {failed}, which failed with {then} on it.",
        ),
    ),
    "ask_in": SpeechAct(
        ("put me on", "i should be on", "choose me for"),
        (
            "{leader}, put me on {quest}: {record}.",
            "I should be on {quest}, {leader}; {record}.",
            "{leader}, choose me for {quest}, as {record}.",
        ),
    ),
    "pick_self": SpeechAct(
        ("i go on", "count myself in"),
        (
            "As leader I go on {quest} myself: {record}.",
            "I count myself in for {quest}, and {record}.",
        ),
    ),
}

WORDING: Final[Mapping[IntentionId, Wording]] = {
    "question_missing_vote": Wording(
        "ask_vote", "ask", "make {x} explain the rejection on {when}", "{x} voted against {then} on {when}"
    ),
    "question_changed_statements": Wording(
        "ask_change", "ask", "make {x} explain a change of course", "{x} has not kept one line"
    ),
    "question_leader_pick": Wording(
        "ask_pick", "ask", "make {leader} justify {x}", "I do not see why {x} was named for {when}"
    ),
    "question_leader_absence": Wording(
        "ask_absence", "ask", "ask {leader} about staying off the team", "{leader} leads and is not on {team}"
    ),
    "defend_team": Wording("back_team", "for", "speak up for {team}", "I hold {team} to be loyal, every one"),
    "defend_self": Wording(
        "defend_self", "self", "clear my own name before {quest}", "I may be doubted, and my record helps me"
    ),
    "defend_teammate": Wording(
        "defend_other", "for", "take the heat off {x}", "{x} plays on my side and draws suspicion"
    ),
    "share_concerns_evil": Wording("worry", "against", "make others look at {x}", "I know {x} to be evil"),
    "concern_failed_quest_member": Wording(
        "worry_failed", "against", "get {x} off the team after {failed}", "{x} was on {failed}, which failed"
    ),
    "cast_suspicion": Wording(
        "worry", "against", "turn the doubts towards {x}", "{x} is not on my side and is easy to doubt"
    ),
    "counter_not_on_team": Wording(
        "counter_off",
        "self",
        "argue against the team of {team}, which leaves me out",
        "the team of {team} is without me",
    ),
    "counter_evil_on_team": Wording(
        "counter_evil",
        "against",
        "stop {team} because of {x}",
        "{x} is on {team}, and I want to see another team",
    ),
    "disagree_not_on_team": Wording(
        "disagree_off",
        "self",
        "announce my vote against {team}",
        "the team of {team} is without me, and I will vote against it",
    ),
    "stay_hidden": Wording(
        "quiet", "quiet", "say little and sound like a Servant", "nobody should wonder what I know"
    ),
    "express_no_information": Wording(
        "no_team", "quiet", "seem to have no idea about teams", "who seems clueless is not taken for Merlin"
    ),
    "pretend_no_information": Wording(
        "no_evil", "quiet", "seem not to know who is evil", "I know, and it must not show"
    ),
    "pretend_percival": Wording(
        "claim_percival", "claim", "pass for Percival", "the claim draws attention away from the real one"
    ),
    "pretend_merlin_hints": Wording(
        "hint", "against", "sound like Merlin about {x}", "whoever hunts Merlin should look at me, not at him"
    ),
    "act_like_merlin": Wording(
        "hint", "against", "let Percival take me for Merlin by pointing at {x}", "Percival sees two of us"
    ),
    "express_loyalty": Wording(
        "claim_loyal", "claim", "make them believe I am loyal", "I need their trust for {quest}"
    ),
    "express_confusion_failure": Wording(
        "confusion",
        "quiet",
        "look as surprised by {failed} as the others",
        "{failed} failed, and I should wonder too",
    ),
    "convince_leader": Wording(
        "ask_in", "self", "get onto the team of {quest}", "I want to be on {quest} myself"
    ),
    "reveal_percival": Wording(
        "claim_percival", "claim", "tell the table that I am Percival", "the others need a voice to follow"
    ),
    "reveal_servant": Wording(
        "claim_servant",
        "claim",
        "tell the table that I am a Servant",
        "I have nothing to hide, and trust helps us",
    ),
    "support_proposal": Wording(
        "back_team", "for", "get {team} approved", "the team of {team} suits me for {quest}"
    ),
    "support_loyal_player": Wording("vouch", "for", "strengthen {x}", "I hold {x} to be loyal"),
    "support_teammate_on_team": Wording("recommend", "for", "see {x} on {quest}", "{x} plays on my side"),
    "vouch_for_teammate": Wording(
        "vouch", "for", "make {x} look good", "{x} plays on my side and needs their trust"
    ),
    "include_loyal_as_leader": Wording(
        "recommend", "for", "bring {x} onto my team", "I lead, and I hold {x} to be loyal"
    ),
    "hint_about_evil": Wording(
        "hint", "against", "hint that {x} is evil", "I know {x} to be evil and must not say how"
    ),
    "support_failed_team_loyals": Wording(
        "defend_other", "for", "keep {x} from being blamed", "{x} was on the failed team and is loyal"
    ),
}
"""The wording of every intention of the catalogue."""
