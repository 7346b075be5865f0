"""Generated chats with questions whose evidence is known.

They were looked at while settings were chosen, and were written for the ideas they test: they show
that an idea works where it should, not how well finding does on chats nobody has seen.

Two friends talk over months. Between small talk they mention things that are asked about later:
lists whose items lie in different sessions, answers that do not repeat the words of their
question, things said on a date, and things told in other words than they are asked for. Some
questions use a short form of a name, some a time seen from today, and some lean on the turn before.
"""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any

Message = dict[str, Any]

NAMES = ("Ingrid", "Tomas", "Aisha", "Marek", "Yuriko", "Paola", "Declan", "Nooran")
LOST = ("umbrella", "passport", "scarf", "charger", "wallet", "notebook", "earring", "thermos")
CLUBS = (("chess club", "Thursdays"), ("choir", "Tuesdays"), ("rowing crew", "Saturdays"))
FIRST = date(2023, 1, 9)
CITIES = ("Lisbon", "Kraków", "Oslo", "Ghent", "Turin", "Porto", "Riga", "Split", "Bergen", "Graz")
TRIPS = (
    "Just got back from {}, the food alone was worth it",
    "We spent the long weekend in {} and walked until our feet hurt",
    "My train home from {} was four hours late, would you believe it",
    "I flew to {} for work but stayed two days longer",
    "Still dreaming of {}, those narrow streets and the light",
)
ASKED = (
    (
        "what is your sister called by the way?",
        "{}, she is the older one",
        "name of {whose} sister",
    ),
    ("which instrument did you end up choosing?", "The {}, finally", "instrument {who} chose"),
    ("so what colour is the kitchen now?", "{}! I love it", "colour of {whose} kitchen"),
    ("what breed is the puppy?", "Half {}, half mystery", "breed of {whose} puppy"),
)
ANSWERS = (
    ("Solveig", "Bettina", "Oona", "Radka"),
    ("cello", "oboe", "banjo", "trombone"),
    ("terracotta", "mint", "ochre", "indigo"),
    ("beagle", "whippet", "corgi", "vizsla"),
)
COOKED = ("risotto", "goulash", "shakshuka", "paella", "ramen", "moussaka", "pierogi", "laksa")
SOFT = (
    ("I finally bought a car, a tiny red one", "What vehicle did {who} purchase?"),
    ("The doctor says my knee needs surgery", "What medical operation is ahead of {whom}?"),
    ("My boss gave me more money from next month on", "Did {who} get a salary raise?"),
    (
        "Our flat is too small, we want to move to the countryside",
        "Why would {who} look for a new home?",
    ),
    ("I have been so sad since the funeral", "Whose death made {whom} grieve?"),
)
SMALL = (
    "How was your week? Mine was the usual mix of meetings and laundry",
    "Honestly the weather has been all over the place lately",
    "Ha, that sounds just like you",
    "I keep telling myself I should go to bed earlier",
    "Did you watch the match? I fell asleep before the second half",
    "Work is work, nothing new to report there",
    "We should call more often, messages are not the same",
    "The neighbours are renovating again, so much for a quiet morning",
    "That is great news, I am happy for you",
    "I started that book you mentioned, slow but nice",
    "My plants are dying one by one, any advice?",
    "Could be worse, could be raining. Oh wait, it is",
    "Remember the old café near the station? It closed",
    "I made a list of everything I want to do this month and lost the list",
)


class _Chat:
    """A chat that is being written, and what will be asked about it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.names = self.random.sample(NAMES, 2)
        self.named = seed % 2 == 0
        self.messages: list[Message] = []
        self.questions: list[dict[str, Any]] = []
        self.trips: list[int] = []

    def say(self, who: int, text: str) -> int:
        message: Message = {"role": ("user", "assistant")[who], "content": text}
        if self.named:
            message["name"] = self.names[who]
        self.messages.append(message)
        return len(self.messages) - 1

    def ask(self, question: str, *evidence: int, after: str = "") -> None:
        words = {"who": "I", "whose": "my", "whom": "me", "short": "I"}
        if self.named:
            name = self.names[0]
            words = {"who": name, "whose": f"{name}'s", "whom": name, "short": name[:3]}
        asked: dict[str, Any] = {
            "question": question.format(**words),
            "evidence": list(evidence),
        }
        if after:
            turn = [("user", after.format(**words)), ("assistant", "Yes, that came up.")]
            asked["before"] = [{"role": role, "content": text} for role, text in turn]
        self.questions.append(asked)

    def tell(self, kind: str, value: Any, today: str) -> None:
        """Mention one thing, and note what will be asked about it."""
        if kind == "trip":
            self.trips.append(self.say(0, self.random.choice(TRIPS).format(value)))
        elif kind == "dish":
            at = self.say(0, f"Tonight I tried to make {value} and it nearly worked")
            self.ask(f"What did {{who}} try to make on {today}?", at)
        elif kind == "asked":
            place, question, answer, wanted = value
            word = self.random.choice(ANSWERS[place])
            both = self.say(1, f"And {question}"), self.say(0, answer.format(word))
            self.ask(f"What is the {wanted}?", *both)
        elif kind == "club":
            club, when = value
            joined = self.say(0, f"Guess what, I joined the {club}")
            told = self.say(0, f"We meet on {when}, right after work")
            self.ask("And when was it again?", joined, told, after=f"Is {{who}} in the {club}?")
        else:
            self.ask(value[1], self.say(0, value[0]))

    def plans(self) -> list[tuple[str, Any]]:
        """What will be mentioned, in any order."""
        random = self.random
        found: list[tuple[str, Any]] = [("trip", city) for city in random.sample(CITIES, 5)]
        found += [("dish", dish) for dish in random.sample(COOKED, 6)]
        found += [("asked", (n, *each)) for n, each in enumerate(ASKED)]
        found += [("soft", each) for each in SOFT] + [("club", random.choice(CLUBS))]
        random.shuffle(found)
        return found


def generated_chat(seed: int, sessions: int = 24, length: int = 26) -> dict[str, Any]:
    """Return a conversation in the form of the recorded ones."""
    chat = _Chat(seed)
    random, plans = chat.random, chat.plans()
    days = random.sample(range(220), sessions)
    lost = {max(days) - 14 * (n + 2): thing for n, thing in enumerate(random.sample(LOST, 5))}
    for number, day in enumerate(sorted({*days, *lost})):
        when = f"{FIRST + timedelta(days=day):%-d %B, %Y}"
        for turn in range(length):
            if turn == 2 and day in lost:
                at = chat.say(0, f"Somewhere on the way home I lost my {lost[day]}, so annoying")
                chat.ask(f"What did {{short}} lose {(max(days) - day) // 7} weeks ago?", at)
            elif turn % 8 == 4 and plans and random.random() < 0.5:
                chat.tell(*plans.pop(), when)
            else:
                header = f"[Session {number + 1}, {when}]\n" if turn == 0 else ""
                small = f"{random.choice(SMALL)}, {random.choice(SMALL).lower()}"
                chat.say(turn % 2, header + small)
    chat.ask("Which cities did {who} visit?", *chat.trips)
    for question in chat.questions:
        question["ask_after"] = len(chat.messages) - 1
    return {"id": f"generated-{seed}", "messages": chat.messages, "questions": chat.questions}
