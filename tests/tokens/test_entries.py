from __future__ import annotations

import base64
import math

import pytest

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.tokens import TiktokenCounter, count_tokens, find_family
from tests.support.messages import assistant, call, result, system, user

USER, ASSISTANT = MessageRole.USER, MessageRole.ASSISTANT


counter = TiktokenCounter("o200k_base")


class TestEntries:
    @pytest.mark.parametrize(
        ("entry", "framing", "texts"),
        [
            (ConversationEntry(USER, "hello world"), 4, ["hello world"]),
            (ConversationEntry(USER, "hi", name="ada"), 4 + 1, ["hi", "ada"]),
            (
                ConversationEntry(
                    ASSISTANT,
                    tool_calls=(ToolCall("c1", "look", '{"at": 1}'), ToolCall("c2", "look")),
                ),
                4 + 2 * 3,
                ["look", '{"at": 1}', "look", "{}"],
            ),
            (
                ConversationEntry(ASSISTANT, "yes", reasoning=(Reasoning("hm, no"),)),
                4,
                ["yes", "hm, no"],
            ),
        ],
        ids=["text", "name", "calls", "reasoning"],
    )
    def test_a_message_costs_its_framing_and_its_texts(
        self, entry: ConversationEntry, framing: int, texts: list[str]
    ) -> None:
        assert counter.count_entry(entry) == framing + sum(map(counter.count, texts))

    @pytest.mark.parametrize(
        ("raw", "source", "tokens"),
        [
            ({"data": "x" * 1_600}, None, 320),
            ({"encrypted_content": "x" * 18_480}, None, 1_540),
            ({"encrypted_content": "x" * 18_480, "summary": []}, {"reasoning": 1_499}, 1_499),
        ],
    )
    def test_encrypted_reasoning_costs_what_was_reported_or_by_its_size(
        self, raw: dict[str, object], source: object, tokens: int
    ) -> None:
        if source:
            source = {"usage": {"input_tokens": 9, "output_tokens_details": source}}
        sealed = Reasoning("a summary" if source else None, raw=raw, encrypted=True)
        entry = ConversationEntry(ASSISTANT, "yes", reasoning=(sealed,), source=source)
        bare = counter.count_entry(ConversationEntry(ASSISTANT, "yes"))
        assert counter.count_entry(entry) == bare + tokens

    def test_media_is_priced_by_size_or_estimate(self) -> None:
        bare = counter.count_entry(ConversationEntry(USER, "see"))

        def extra(part: ContentPart) -> int:
            return counter.count_entry(ConversationEntry(USER, "see", parts=(part,))) - bare

        assert extra(ContentPart("image", width=1024, height=1024)) == 765
        assert extra(ContentPart("image", raw={"image_url": {"detail": "low"}})) == 85
        assert extra(ContentPart("audio")) == 1_000
        assert extra(ContentPart("file", tokens=12)) == 12
        assert extra(ContentPart("text", text="see")) == 0
        assert extra(ContentPart("other", raw={"type": "citation", "of": "page 3"})) > 3

    def test_a_factor_applies_to_the_whole_message_once(self) -> None:
        plain, scaled = TiktokenCounter("o200k_base"), TiktokenCounter("claude-sonnet-4-5")
        entry = ConversationEntry(USER, "one two three four five")
        tokens = plain.count_entry(entry)
        assert scaled.count_entry(entry) == math.ceil(tokens * 1.25)


class TestRequests:
    def test_a_request_is_the_sum_of_its_messages_and_the_priming(self) -> None:
        messages = [system("s"), user("hi"), call("c1", at=3), result("c1", "found")]
        each = [count_tokens([message], counter) - 3 for message in messages]
        assert count_tokens(messages, counter) == sum(each) + 3
        assert count_tokens([], counter) == counter.priming

    def test_a_request_includes_its_tools(self) -> None:
        tools = [{"name": "look", "description": "Look around."}]
        said = [user("hi")]
        assert count_tokens(said, counter, tools=tools) == (
            count_tokens(said, counter) + counter.count_tools(tools)
        )


class TestImages:
    @pytest.mark.parametrize(
        ("model", "size", "tokens"),
        [
            ("gpt-4o", (1024, 1024), 765),
            ("gpt-4o", (2048, 4096), 1105),
            ("gpt-4o", (300, 300), 255),
            ("gpt-5", (512, 512), 210),
            ("gpt-4o-mini", (512, 512), 8500),
            ("gpt-5-mini", (1800, 2400), 2489),
            ("claude-sonnet-4-5", (280, 280), 100),
            ("claude-sonnet-4-5", (4000, 4000), 1568),
            ("gemini-2.5-pro", (384, 384), 258),
            ("gemini-2.5-pro", (1536, 768), 516),
        ],
    )
    def test_an_image_costs_what_its_model_takes(
        self, model: str, size: tuple[int, int], tokens: int
    ) -> None:
        family = find_family(model)
        assert family is not None
        assert family.image.count(*size) == tokens

    @pytest.mark.parametrize("model", ["gpt-4o", "gpt-5-mini", "claude-sonnet-4-5"])
    def test_an_image_of_unknown_size_costs_the_most(self, model: str) -> None:
        family = find_family(model)
        assert family is not None
        sizes = [(100, 100), (1024, 1024), (768, 2048), (5000, 5000)]
        most = max(family.image.count(*size) for size in sizes)
        assert family.image.count(None, None) >= most


class TestFamilies:
    @pytest.mark.parametrize(
        ("model", "family", "factor"),
        [
            ("gpt-4o", "gpt-4o", 1.0),
            ("openai/gpt-5.1", "gpt-5", 1.0),
            ("ft:gpt-4o:acme", "gpt-4o", 1.0),
            ("gpt-oss-120b", "gpt-oss", 1.0),
            ("o3", "o-series", 1.0),
            ("o4-mini", "o4-mini", 1.0),
            ("claude-3-5-sonnet-latest", "claude", 1.25),
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude", 1.25),
            ("claude-sonnet-4-6", "claude", 1.25),
            ("claude-opus-4-7", "claude-new", 1.6),
            ("models/gemini-2.5-pro", "gemini", 1.15),
            ("mistral-large-latest", "mistral", 1.3),
        ],
    )
    def test_a_model_finds_its_family(self, model: str, family: str, factor: float) -> None:
        found = find_family(model)
        assert found is not None
        assert (found.name, found.factor) == (family, factor)
        assert find_family("my-own-model") is None

    def test_tools_of_openai_models_carry_a_margin(self) -> None:
        plain, model = TiktokenCounter("o200k_base"), TiktokenCounter("gpt-4o")
        tools = [{"name": "weather", "description": "Current weather. " * 9}]
        assert model.count("hello world") == plain.count("hello world")
        assert model.count_tools(tools) == math.ceil(plain.count_tools(tools) * 1.05)


TEXT = "Quarterly figures, region by region. " * 500
PDF = b"%PDF-1.4 " + b"<< /Type /Page >> " * 7 + b"<< /Type /Pages /Count 7 >>"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def document(**source: object) -> dict[str, object]:
    return {"type": "document", "source": source}


DATA_URL = "data:text/plain;base64," + b64(TEXT.encode())
BLOCKS = [
    document(type="text", media_type="text/plain", data=TEXT),
    document(type="content", content=[{"type": "text", "text": TEXT}]),
    document(type="base64", media_type="text/csv", data=b64(TEXT.encode())),
    {**document(type="url", url="https://example.org/a.pdf"), "title": TEXT},
    {"type": "file", "file": {"filename": "a.txt", "file_data": DATA_URL}},
    {"type": "file", "file": {"filename": "a.md", "file_data": b64(TEXT.encode())}},
    {"type": "file", "mime_type": "text/plain", "base64": b64(TEXT.encode())},
    {"type": "mystery", "payload": TEXT},
]


class TestEverythingThatIsSentIsCounted:
    @pytest.mark.parametrize("block", BLOCKS)
    def test_the_text_of_a_document_counts_as_text(self, block: dict[str, object]) -> None:
        message = {"role": "user", "content": [{"type": "text", "text": "see"}, block]}
        assert count_tokens([message], counter) >= counter.count(TEXT)

    @pytest.mark.parametrize("data", [PDF, b"%PDF-1.7" + b"\x9c" * 70_000])
    def test_a_pdf_costs_so_much_a_page(self, data: bytes) -> None:
        block = document(type="base64", media_type="application/pdf", data=b64(data))
        message = {"role": "user", "content": [block]}
        assert 7 * 3_000 <= count_tokens([message], counter) <= 8 * 3_000 + 20

    def test_a_block_that_holds_itself_is_counted_once(self) -> None:
        block: dict[str, object] = {"text": TEXT}
        block["self"] = block
        entry = ConversationEntry(USER, "see", parts=(ContentPart("other", raw=block),))
        assert counter.count(TEXT) < counter.count_entry(entry) < counter.count(TEXT) + 20

    def test_long_sound_costs_more_than_short_sound(self) -> None:
        def spoken(size: int) -> int:
            audio = {"data": b64(b"x" * size), "format": "mp3"}
            block = {"type": "input_audio", "input_audio": audio}
            return count_tokens([{"role": "user", "content": [block]}], counter)

        assert spoken(10) < 1_100 < 19_000 < spoken(10_000_000)

    def test_a_refusal_counts_as_text(self) -> None:
        refused = count_tokens([assistant(None, refusal=TEXT)], counter)
        assert refused == count_tokens([assistant(TEXT)], counter)

    def test_ordinary_ids_are_framing_and_longer_ones_are_counted(self) -> None:
        short = [call("c1"), result("c1")]
        usual = [call("call_" + "a1b2" * 9), result("call_" + "a1b2" * 9)]
        endless = [call("x y " * 500), result("x y " * 500)]
        assert count_tokens(usual, counter) == count_tokens(short, counter)
        assert count_tokens(endless, counter) > 2 * counter.count("x y " * 500)

    def test_documents_of_bedrock_count_by_their_format(self) -> None:
        for form, data, tokens in (
            ("pdf", PDF, 7 * 3_000),
            ("csv", TEXT.encode(), counter.count(TEXT)),
        ):
            document = {"name": "a", "format": form, "source": {"bytes": data}}
            message = {"role": "user", "content": [{"text": "see"}, {"document": document}]}
            assert tokens <= count_tokens([message], counter) <= tokens + 20
