"""Counts anchored on what the provider reported."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator import ConfigurationError
from history_curator.tokens import Calibration, TiktokenCounter, Usage

CLAUDE = "claude-sonnet-4-5"


def grow(calibration, ratio, *, model=CLAUDE, hidden=0, start=5_000, step=800, calls=8, key=None):
    """A conversation that grows by the same step, as a provider of its own mind counts it."""
    for call in range(calls):
        counted = start + call * step
        calibration.observe(model, counted, Usage(round(counted * ratio) + hidden), key=key)
    return start + (calls - 1) * step


class TestFactor:
    def test_starts_where_the_family_is(self):
        calibration = Calibration()

        assert calibration.factor(CLAUDE) == 1.25
        assert calibration.factor("gpt-4o") == 1.0
        assert calibration.factor("oracle-7") == 1.3
        assert calibration.learned(CLAUDE) == 0

    def test_a_counter_that_knows_the_family_starts_at_one(self):
        assert Calibration(CLAUDE).factor(CLAUDE) == 1.0

    @pytest.mark.parametrize("ratio", [1.0, 1.2, 1.45, 1.7])
    @pytest.mark.parametrize("hidden", [0, 3_000, 40_000])
    def test_learns_the_ratio_whatever_is_hidden(self, ratio, hidden):
        calibration = Calibration()
        grow(calibration, ratio, hidden=hidden, calls=30)

        assert calibration.factor(CLAUDE) == pytest.approx(ratio, abs=0.05)

    def test_a_hidden_prompt_alone_teaches_nothing(self):
        calibration = Calibration()
        calibration.observe(CLAUDE, 100, Usage(60_000))

        assert calibration.factor(CLAUDE) == 1.25

    @given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**7)), max_size=40))
    def test_is_bounded_whatever_is_reported(self, calls):
        calibration = Calibration()
        for counted, reported in calls:
            calibration.observe(CLAUDE, counted, Usage(reported))

        assert 0.62 <= calibration.factor(CLAUDE) <= 3.13
        assert calibration.bound(CLAUDE, 1_000) >= 0

    def test_a_part_of_the_prompt_is_not_taken_for_all_of_it(self):
        calibration = Calibration()
        at = grow(calibration, 1.25)
        before = calibration.predict(CLAUDE, at + 100)
        calibration.observe(CLAUDE, at, Usage(3))

        assert calibration.predict(CLAUDE, at + 100) == before

    def test_models_learn_apart(self):
        calibration = Calibration()
        grow(calibration, 1.7, calls=20)

        assert calibration.factor("claude-opus-4-1") == 1.25

    def test_nothing_is_learned_from_nothing(self):
        calibration = Calibration()
        calibration.observe(CLAUDE, 5_000, None)
        calibration.observe(CLAUDE, 5_000, {"role": "assistant", "content": "hi"})

        assert calibration.to_dict() == Calibration().to_dict()


class TestPrediction:
    def test_the_next_prompt_is_the_last_one_and_what_is_new(self):
        calibration = Calibration()
        at = grow(calibration, 1.4, hidden=20_000, calls=20)

        predicted = calibration.predict(CLAUDE, at + 1_000)

        assert predicted.tokens == pytest.approx(round((at + 1_000) * 1.4) + 20_000, rel=0.002)
        assert predicted.bound == predicted.tokens + predicted.error

    def test_conversations_are_anchored_apart(self):
        calibration = Calibration()
        one = grow(calibration, 1.25, hidden=30_000, key="one")
        two = grow(calibration, 1.25, hidden=100, key="two")

        assert calibration.predict(CLAUDE, one, key="one").tokens > 40_000
        assert calibration.predict(CLAUDE, two, key="two").tokens < 15_000

    def test_a_new_conversation_expects_what_was_hidden_in_the_last_one(self):
        calibration = Calibration()
        grow(calibration, 1.25, hidden=20_000, key="one")

        assert calibration.bound(CLAUDE, 100, key="two") >= 20_000

    def test_another_model_is_sent_what_is_hidden_too(self):
        calibration = Calibration()
        at = grow(calibration, 1.25, hidden=10_000)

        assert calibration.predict("gpt-4o", at).tokens == pytest.approx(at + 8_000, rel=0.05)

    def test_the_error_narrows_as_calls_agree(self):
        calibration = Calibration()
        first = calibration.predict(CLAUDE, 20_000).error
        grow(calibration, 1.25, start=19_000, step=10, calls=5)
        early = calibration.predict(CLAUDE, 20_000).error
        grow(calibration, 1.25, start=19_100, step=7, calls=120)
        late = calibration.predict(CLAUDE, 20_000).error

        assert first > early > late

    @given(st.integers(0, 200_000), st.integers(0, 2**32))
    def test_the_room_is_the_most_that_stays_within_the_limit(self, limit, seed):
        random_calls = random.Random(seed)
        calibration = Calibration()
        grow(
            calibration,
            random_calls.uniform(0.9, 1.8),
            hidden=random_calls.choice([0, 5_000]),
            calls=random_calls.randrange(12),
        )
        room = calibration.room(CLAUDE, limit)

        if room:
            assert calibration.bound(CLAUDE, room) <= limit
        assert calibration.bound(CLAUDE, room + 5) > limit or room == 2 * max(1, limit)


class TestSaved:
    def test_comes_back_from_json(self):
        calibration = Calibration()
        grow(calibration, 1.4, hidden=500, calls=20)

        again = Calibration.from_dict(json.loads(json.dumps(calibration.to_dict())))

        assert again.to_dict() == calibration.to_dict()
        assert again.factor(CLAUDE) == calibration.factor(CLAUDE)
        assert again.learned(CLAUDE) == 19

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"version": 9}, "version"),
            ({"counter": "heuristic"}, "counter"),
            ({"models": []}, "models"),
            ({"models": {CLAUDE: {}}}, "models['claude-sonnet-4-5']"),
            (
                {
                    "models": {
                        CLAUDE: {
                            "reported": float("nan"),
                            "counted": 1,
                            "calls": 1,
                            "hidden": 0,
                            "worst": [],
                            "seen": 0,
                        }
                    }
                },
                "models['claude-sonnet-4-5']",
            ),
        ],
    )
    def test_odd_data_is_refused_by_name(self, change, named):
        with pytest.raises(ConfigurationError) as caught:
            Calibration.from_dict({**Calibration().to_dict(), **change})

        assert f"calibration.{named}" in str(caught.value)

    def test_what_one_counter_taught_is_not_used_with_another(self):
        with pytest.raises(ConfigurationError, match="counter"):
            Calibration.from_dict(Calibration().to_dict(), TiktokenCounter("cl100k_base"))


class TestShared:
    def test_the_same_calls_give_the_same_predictions(self):
        one, two = Calibration(), Calibration()
        for calibration in (one, two):
            grow(calibration, 1.33, hidden=700, calls=40)

        assert one.to_dict() == two.to_dict()
        assert one.predict(CLAUDE, 50_000) == two.predict(CLAUDE, 50_000)

    def test_threads_share_one(self):
        calibration = Calibration()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: grow(calibration, 1.4, calls=50, key=key), range(8)))

        assert calibration.learned(CLAUDE) == 8 * 49
        assert calibration.factor(CLAUDE) == pytest.approx(1.4, abs=0.02)

    def test_forgotten_conversations_do_not_pile_up(self):
        calibration = Calibration()
        for key in range(10_000):
            calibration.observe(CLAUDE, 100, Usage(130), key=key)

        assert len(calibration._last) <= 4_096


TEXTS = (
    "The engineers met on Tuesday to talk about the rollout, and nobody had read the report. ",
    "for index, entry in enumerate(entries):\n    total += counter.count_entry(entry)  # exact\n",
    '{"id": 48213, "status": "open", "labels": ["bug", "p1"], "score": 0.8125, "url": null}\n',
    "昨天晚上工程师们发现冷却系统出现故障，今天早上已经修好了。",
    "Вчера вечером инженеры обнаружили неисправность в системе охлаждения. ",
    "2024-05-03T12:04:55.123Z ERROR [w-7] o.a.k.Consumer - failed 0x7f3a91 after 1500 ms\n",
)


@dataclass
class Provider:
    """Counts with a tokenizer of its own, adds a prompt nobody sees, refuses what is too long."""

    stretch: dict[str, float]
    hidden: int
    limit: int
    refused: int = 0
    fills: list[float] = field(default_factory=list)

    def ask(self, model, view):
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        if not hasattr(Provider, "encode"):
            tokenizer = MistralTokenizer.v3(is_tekken=True).instruct_tokenizer.tokenizer
            Provider.encode = staticmethod(tokenizer.encode)
            Provider.known = {}
        total = self.hidden
        for text in view:
            if text not in Provider.known:
                Provider.known[text] = len(Provider.encode(text, bos=False, eos=False))
            total += Provider.known[text] * self.stretch[model] + 5
        self.refused += total > self.limit
        self.fills.append(total / self.limit)
        return {"prompt_tokens": int(total), "completion_tokens": 20}


@pytest.mark.parametrize(
    ("hidden", "ratios", "mixed"),
    [(2_500, (1.05, 1.7), False), (0, (1.7, 1.05), True), (2_500, (1.3, 1.3), True)],
)
class TestScriptedProvider:
    """No request is too long, and the window is used, whatever tokenizer is behind it."""

    limit = 24_000

    def talk(self, provider, texts, *, warm):
        """The longest end of the conversation that fits, one view per call."""
        counter = TiktokenCounter("o200k_base")
        calibration = Calibration(counter)
        sizes = [counter.count(text) + 4 for text in texts]
        total = list(accumulate(sizes, initial=0))
        for end in range(warm, len(texts)):
            model = "mistral-large-2411" if end < warm + 120 else "mistral-large-2512"
            for start in range(end):
                counted = total[end] - total[start]
                if calibration.bound(model, counted) <= provider.limit:
                    break
            usage = provider.ask(model, texts[start:end])
            calibration.observe(model, counted, usage)

    def test_fills_the_window_and_never_overflows(self, hidden, ratios, mixed):
        pytest.importorskip("mistral_common")
        choose = random.Random(7)
        kinds = TEXTS if mixed else TEXTS[:1]
        texts = [f"{n} " + choose.choice(kinds) * choose.randint(2, 8) for n in range(540)]
        versions = ("mistral-large-2411", "mistral-large-2512")
        own = 1.2 if mixed else 1.05  # What the tokenizer takes for these texts, of o200k's.
        stretch = {name: ratio / own for name, ratio in zip(versions, ratios, strict=True)}
        provider = Provider(stretch, hidden, self.limit)

        self.talk(provider, texts, warm=300)

        assert provider.refused == 0
        settled = provider.fills[5:120] + provider.fills[125:]
        assert min(settled) >= 0.95


class TestRecordedSessions:
    def test_the_next_prompt_is_foretold_and_the_bound_holds(self):
        """Also on the half of the logs that nothing was chosen on."""
        usage = pytest.importorskip("benchmarks.usage")
        archive = pytest.importorskip("benchmarks._logs").ARCHIVE
        if not archive.is_file():
            pytest.skip(f"recorded sessions are absent: {archive.name} is not in ../shared/data")

        sessions = usage.read_sessions()
        for some in (sessions, usage.half(sessions, tuned=False)):
            anchored = usage.measure(some)[0]["anchored"]
            errors = sorted(anchored.errors)
            assert len(errors) > 2_000
            assert errors[len(errors) // 2] <= 0.003
            assert errors[int(len(errors) * 0.95)] <= 0.015
            assert anchored.exceeded <= 0.01 * len(errors)
